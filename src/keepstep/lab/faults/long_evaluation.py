# SPDX-License-Identifier: Apache-2.0
"""Not a fault: one rank evaluates for many seconds, at full work, while the others wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SECONDS = 40.0


def at(step: int, rank: int) -> None:
    import numpy as np

    end, rows = time.monotonic() + SECONDS, 0
    weights = np.ones((1024, 1024), dtype="float32")
    while time.monotonic() < end:
        weights = np.tanh(weights @ weights)
        rows += len(weights)
    print(f"evaluated {rows} rows", flush=True)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if "evaluated" in run.log_of(run.scenario.struck):
        raise Unproven("the evaluation has ended")
    return f"{run.proof_that_it_struck()} and has not ended"
