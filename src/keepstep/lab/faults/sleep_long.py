# SPDX-License-Identifier: Apache-2.0
"""The rank stops for five minutes at one step: the others wait in the collective."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    time.sleep(300)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    told = run.proof_that_it_struck()
    if not run.alive(rank):
        raise Unproven(f"rank {rank} is not asleep: it has ended")
    return f"{told} and still sleeps"
