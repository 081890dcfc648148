# SPDX-License-Identifier: Apache-2.0
"""No faults: what only looks like one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class FirstStep(Fault):
    """Not a fault: the first step begins, in which the model is compiled; only the moment is noted."""

    def at(self, step: int, rank: int) -> None:
        pass


class HarmlessException(Fault):
    """Not a fault: an exception is caught, its traceback logged, and training goes on."""

    SENTENCE = "could not upload metrics, will retry at the next evaluation"

    def at(self, step: int, rank: int) -> None:
        try:
            open("/data/metrics/upload.json").read()
        except OSError:
            logging.getLogger("train").exception(self.SENTENCE)

    def proof(self, run: Run) -> str:
        return run.proof_in_log((run.scenario.strike_ranks or (0,))[0], self.SENTENCE)


class HarmlessWords(Fault):
    """Not a fault: the job prints the words that worry people, in sentences that should not."""

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

    def at(self, step: int, rank: int) -> None:
        for line in self.LINES:
            print(line, flush=True)

    def proof(self, run: Run) -> str:
        return run.proof_in_log((run.scenario.strike_ranks or (0,))[0], self.LINES[0])
