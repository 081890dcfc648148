# SPDX-License-Identifier: Apache-2.0
"""Not a fault: the job prints the words that worry people, in sentences that should not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LINES = (
    "data validation: 2048 samples read, 0 errors, 0 corrupt",
    "nan_to_num enabled for inputs; found 0 nan in 2048 samples",
    "WARNING:root:loss scale overflow check: inf count 0, nan count 0",
    "error_rate=0.083 mean_squared_error=0.0127 max_error=0.4",
    "will kill stale helper processes at exit: none found",
    "NCCL not available, using gloo; timeout=1800s (default)",
    "checkpoint callback: on_exception hook registered, SIGTERM handler installed",
    "fault tolerance: restarts left 3, failed attempts so far: 0",
    "eval: nan=False, aborted=False, out of memory retries: 0",
)


def at(step: int, rank: int) -> None:
    for line in LINES:
        print(line, flush=True)


def proof(run: Run) -> str:
    return run.proof_in_log((run.scenario.strike_ranks or (0,))[0], LINES[0])
