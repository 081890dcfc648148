# SPDX-License-Identifier: Apache-2.0
"""The rank lives in a memory cgroup (v1) and grows past its limit: the kernel kills it and logs that."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import rest

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LIMIT = 256 << 20
"""Only what it takes from now on is counted."""


def outside(run: Run) -> None:
    group = run.control_group("memory", {"memory.limit_in_bytes": str(LIMIT)})
    if run.until(lambda: any("struck" in what for _, what in run.strikes())):
        (group / "cgroup.procs").write_text(str(run.pid_of(run.scenario.struck)))
        while not run.over.is_set() and not any("Killed process" in line for line in _kernel_log(group.name)):
            time.sleep(0.1)
        (run.folder / "dmesg.log").write_text("\n".join(_kernel_log(group.name)) + "\n")


def at(step: int, rank: int) -> None:
    while "keepstep-lab" not in Path("/proc/self/cgroup").read_text():
        rest(0.01)
    held = []
    while True:
        held.append(os.urandom(1 << 20) * 8)
        rest(0.02)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    path = run.folder / "dmesg.log"
    killed = [line for line in path.read_text().splitlines() if "Killed process" in line] if path.exists() else []
    if not killed:
        raise Unproven("the kernel killed nobody")
    return f"the kernel's log: {killed[0].strip()}"


def _kernel_log(group: str) -> list[str]:
    """The lines of this cgroup's kill: from the one who asked for memory to the one who was killed."""
    lines = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()
    named = [index for index, line in enumerate(lines) if group in line]
    if not named:
        return []
    asked = [index for index in range(named[0]) if "invoked oom-killer" in lines[index]]
    return lines[asked[-1] if asked else named[0] : named[-1] + 4]
