# SPDX-License-Identifier: Apache-2.0
"""The rank sleeps at one step while the others wait, until someone ends the whole job with SIGTERM."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

PATIENCE_S = 20.0


def at(step: int, rank: int) -> None:
    time.sleep(300)


def outside(run: Run) -> None:
    if not run.until(lambda: bool(run.strikes())):
        return
    run.over.wait(PATIENCE_S)
    for pid in run.rank_pids().values():
        os.kill(pid, signal.SIGTERM)
    run.strike(f"SIGTERM was sent to all ranks {PATIENCE_S:g} s later")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    if len(run.strikes()) < 2:
        raise Unproven("the rank was never asleep, or nobody ended the job")
    run.proof_of_signal(rank, signal.SIGTERM)
    return f"{run.strikes()[0][1]}; {run.strikes()[1][1]}"
