# SPDX-License-Identifier: Apache-2.0
"""The user's code raises, and a `finally` then waits for a file that the other ranks will never write."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    sample = {"pixels": [0.0], "target": 3}
    try:
        print(sample["label"])
    finally:
        while not os.path.exists("all-ranks-are-done"):
            time.sleep(0.2)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    told = run.proof_that_it_struck()
    if not run.alive(rank):
        raise Unproven(f"rank {rank} is not in its `finally`: it has ended")
    return f"{told} and waits in its `finally`"
