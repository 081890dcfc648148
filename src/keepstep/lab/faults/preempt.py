# SPDX-License-Identifier: Apache-2.0
"""SIGTERM to what launched the job, as a scheduler sends when it takes the machine back."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        alive = [rank for rank, process in run.processes.items() if process.poll() is None]
        for rank in alive:
            run.processes[rank].send_signal(signal.SIGTERM)
        run.strike(f"SIGTERM was sent to {len(alive)} living processes")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.proof_that_it_struck()
    if told.startswith("SIGTERM was sent to 0"):
        raise Unproven(told)
    return told
