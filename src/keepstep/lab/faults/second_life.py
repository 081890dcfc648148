# SPDX-License-Identifier: Apache-2.0
"""One rank is killed, the whole job is started again into the same logs, and there it fails for another reason."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

GRACE_S = 8.0
"""How long whatever restarts the job lets the others fail by themselves."""
MARK = "second-life"


def at(step: int, rank: int) -> None:
    if (Path(os.environ["KEEPSTEP_LAB_WORK"]) / MARK).exists():
        {"x": 0}["label"]


def outside(run: Run) -> None:
    rank = run.scenario.struck
    if not run.wait_for(run.scenario.mark, rank=rank):
        return
    run.restarting = True
    run.strike(f"SIGKILL to rank {rank}")
    os.kill(run.pid_of(rank), signal.SIGKILL)
    run.until(lambda: all(process.poll() is not None for process in run.processes.values()), GRACE_S)
    for process in run.processes.values():
        if process.poll() is None:
            process.kill()
    (run.work / MARK).touch()
    for each in run.order:
        run.start_rank(each)
    run.strike("the whole job was started again")
    run.restarting = False


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    if (rank, -signal.SIGKILL) not in run.ended or len(run.ended) != run.scenario.ranks:
        raise Unproven("the job was not started again after SIGKILL")
    return f"rank {rank} was ended by SIGKILL; in the second life {run.proof_in_log(rank, 'KeyError')}"
