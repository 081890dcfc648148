# SPDX-License-Identifier: Apache-2.0
"""The rank may have no more tasks (pids cgroup, as containers have); it starts threads until it cannot."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from . import rest

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ROOM = 12


def outside(run: Run) -> None:
    if run.until(lambda: any("struck" in what for _, what in run.strikes())):
        pid = run.pid_of(run.scenario.struck)
        tasks = len(list(Path(f"/proc/{pid}/task").iterdir()))
        group = run.control_group("pids", {"pids.max": str(tasks + ROOM)})
        (group / "cgroup.procs").write_text(str(pid))


def at(step: int, rank: int) -> None:
    while "keepstep-lab" not in Path("/proc/self/cgroup").read_text():
        rest(0.01)
    while True:
        threading.Thread(target=rest, args=(300,), daemon=True).start()


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    refused = int((run.control_group("pids", {}) / "pids.events").read_text().split()[1])
    if not refused:
        raise Unproven("no task was refused")
    return f"the kernel refused {refused} new tasks (pids.events)"
