# SPDX-License-Identifier: Apache-2.0
"""Ask the ranks of a running job to save, all after the same step."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.errors import Unavailable, UserError
from keepstep.signals.blackbox import HEADER_SIZE, NotABox, identity
from keepstep.signals.box_files import open_box
from keepstep.store import save_request

POLL_S = 0.1


@dataclass(frozen=True)
class WillSave:
    """What the ranks answered."""

    ranks: int
    step: int | None
    """About which, as the guard of rank 0 counts; None: no answer in time."""


def save_now(place: Path, wait_s: float = 60.0) -> WillSave:
    """``place``: a run folder, or a folder of guards. Raises where nothing runs there, or nothing listens."""
    folder, ranks = _running(place)
    if not ranks:
        raise UserError(
            f"no rank of {place} is running on this machine",
            hint="give the folder of a running job, on the machine of its rank 0; `keepstep runs` lists runs",
        )
    if not all(ranks.values()):
        silent = sum(not saves for saves in ranks.values())
        raise Unavailable(
            f"{silent} of {len(ranks)} ranks have not called keepstep.should_save(), so they cannot be asked to save",
            hint="add `if keepstep.should_save(): save()` to the training loop",
        )
    number = save_request.ask(folder)
    until = time.monotonic() + wait_s
    while (step := save_request.answered(folder, number)) is None and time.monotonic() < until:
        time.sleep(POLL_S)
    return WillSave(len(ranks), step)


def _running(place: Path) -> tuple[Path, dict[int, bool]]:
    """The newest folder with black boxes of living ranks, and whether each of them listens for requests."""
    attempts = sorted(place.glob("attempt-*/guard"), key=lambda each: int(each.parent.name.partition("-")[2]))
    for folder in [*reversed(attempts), place / "guard", place]:
        ranks = {}
        for path in folder.glob("*.box"):
            with contextlib.suppress(OSError, NotABox), open_box(path) as stream:
                who = identity(stream.read(HEADER_SIZE))
                entry = read_stat(who["pid"])
                if entry is not None and entry.lives and entry.started == who.get("started"):
                    ranks[int(who["pid"])] = bool(who.get("saves_on_request"))
        if ranks:
            return folder, ranks
    return place, {}
