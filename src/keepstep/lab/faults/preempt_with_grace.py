# SPDX-License-Identifier: Apache-2.0
"""SIGTERM to every rank, and SIGKILL to those still there three seconds later, as Kubernetes and Slurm do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import preempt

if TYPE_CHECKING:
    from keepstep.lab.run import Run

GRACE = 3.0


def outside(run: Run) -> None:
    preempt.outside(run)
    if run.strikes():
        time.sleep(GRACE)
        for process in run.processes.values():
            if process.poll() is None:
                process.kill()


def proof(run: Run) -> str:
    ends = {rank: process.poll() for rank, process in run.processes.items()}
    return f"{preempt.proof(run)}; the ranks ended with {ends}"
