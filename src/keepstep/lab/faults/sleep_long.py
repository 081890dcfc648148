# SPDX-License-Identifier: Apache-2.0
"""The rank stops for five minutes at one step: the others wait in the collective."""

from __future__ import annotations

import signal
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
    ended_asleep = "sleep_long.py" in run.log_of(rank)  # a watchdog printed its stack
    if not ended_asleep and run.status_of(rank) not in (None, -signal.SIGTERM, -signal.SIGKILL):
        raise Unproven(f"rank {rank} did not sleep to the end: its status is {run.status_of(rank)}")
    return f"{told}, and nothing woke it"
