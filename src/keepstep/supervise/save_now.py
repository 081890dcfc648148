# SPDX-License-Identifier: Apache-2.0
"""Ask the ranks of a running job to save, all after the same step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from keepstep.errors import Unavailable, UserError
from keepstep.store import save_request
from keepstep.supervise.running_ranks import led_attempt, running_ranks

POLL_S = 0.1


@dataclass(frozen=True)
class WillSave:
    """What the ranks answered."""

    ranks: int
    step: int | None
    """About which, as the guard of rank 0 counts; None: no answer in time."""


def save_now(place: Path, wait_s: float = 60.0) -> WillSave:
    """``place``: a run folder, or a folder of guards. Raises where nothing runs there, or nothing listens."""
    led = led_attempt(place)
    folder, ranks = (led.folder, ()) if led is not None else running_ranks(place)
    if led is None and not ranks:
        raise UserError(
            f"no rank of {place} is running on this machine",
            hint="give the folder of a running job, on the machine of its rank 0; `keepstep runs` lists runs",
        )
    if silent := sum(not rank.saves_on_request for rank in ranks):
        raise Unavailable(
            f"{silent} of {len(ranks)} ranks have not called keepstep.should_save(), so they cannot be asked to save",
            hint="add `if keepstep.should_save(): save()` to the training loop",
        )
    number = save_request.ask(folder)
    until = time.monotonic() + wait_s
    while (step := save_request.answered(folder, number)) is None and time.monotonic() < until:
        time.sleep(POLL_S)
    return WillSave(led.ranks if led is not None else len(ranks), step)
