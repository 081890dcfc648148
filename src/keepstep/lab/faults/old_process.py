# SPDX-License-Identifier: Apache-2.0
"""The job is ended and started again, but the old process of rank 0 is still there and holds the port."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if not run.wait_for(run.scenario.mark, rank=0):
        return
    old = run.processes[0]
    os.kill(run.pid_of(0), signal.SIGSTOP)  # as one in an uninterruptible read: no signal ends it
    run.stack.callback(_end, old)
    (run.work / "old-pid").write_text(str(old.pid))
    run.restarting = True
    run.strike("the job was ended, but rank 0 did not react")
    for rank in run.order:
        if rank:
            os.killpg(run.processes[rank].pid, signal.SIGKILL)
    del run.processes[0]
    for rank in run.order:
        run.start_rank(rank)
    run.strike("the job was started again")
    run.restarting = False


def _end(old: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(old.pid, signal.SIGKILL)
    old.wait()


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    path = run.work / "old-pid"
    if not path.exists():
        raise Unproven("the job was never started again")
    old = int(path.read_text())
    state = Path(f"/proc/{old}/stat").read_text().rpartition(")")[2].split()[0]
    if state != "T" or old == run.processes[0].pid:
        raise Unproven(f"the old process of rank 0 is in state {state}")
    return f"the old process {old} of rank 0 is there, the new one is {run.processes[0].pid}"
