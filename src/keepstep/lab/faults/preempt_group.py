# SPDX-License-Identifier: Apache-2.0
"""SIGTERM to every process of the job at once, as a scheduler that ends a whole node does."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        pids = run.rank_pids()
        for pid in pids.values():
            os.kill(pid, signal.SIGTERM)
        run.strike(f"SIGTERM was sent to the processes of ranks {sorted(pids)}")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    ends = {rank: run.status_of(rank) for rank in run.processes}
    if any(end not in (-signal.SIGTERM, 128 + signal.SIGTERM) for end in ends.values()):
        raise Unproven(f"the ranks ended with {ends}")
    return f"{run.proof_that_it_struck()}; the ranks ended with {ends}"
