# SPDX-License-Identifier: Apache-2.0
"""Ask the ranks of a running job to wait after the same step, and let them go on."""

from __future__ import annotations

import time
from pathlib import Path

from keepstep.errors import Unavailable, UserError
from keepstep.signals.blackbox import BoxPhase
from keepstep.store import pause_request
from keepstep.supervise.running_ranks import RunningRank, running_ranks

POLL_S = 0.1


def pause_now(place: Path, longest_s: float, wait_s: float) -> tuple[int, int]:
    """How many ranks wait, and after which step. Raises where nothing runs, or not all of them wait."""
    folder, ranks = _running(place)
    if pause_request.asked(folder) is not None:
        raise UserError(f"{place} has been asked to pause already", hint=f"`keepstep resume {place}` ends that pause")
    if deaf := sum(not rank.pauses_on_request for rank in ranks):
        raise Unavailable(
            f"{deaf} of {len(ranks)} ranks cannot be asked to pause",
            hint="`keepstep run` on one machine, without parameter servers, starts ranks that can",
        )
    request, until = pause_request.ask(folder, longest_s), time.monotonic() + wait_s
    while time.monotonic() < until:
        time.sleep(POLL_S)
        doings = [rank.doing() for rank in ranks]
        steps = [each.steps for each in doings if each is not None and each.phase is BoxPhase.RETRY]
        if len(steps) == len(ranks):
            return len(ranks), max(steps)
        if pause_request.asked(folder) != request:
            raise Unavailable("the request was withdrawn, so no rank pauses", hint=f"`keepstep why {place}` says more")
    raise Unavailable(
        f"asked, but not all ranks wait after {wait_s:.0f} s",
        hint=f"they wait after their next step, if the guard sees it; `keepstep resume {place}` withdraws it",
    )


def resume_now(place: Path) -> int:
    """How many ranks may go on. Raises where no pause stands."""
    folder, ranks = _running(place)
    if pause_request.asked(folder) is None:
        raise UserError(f"{place} has not been asked to pause")
    pause_request.withdraw(folder)
    return len(ranks)


def _running(place: Path) -> tuple[Path, tuple[RunningRank, ...]]:
    folder, ranks = running_ranks(place)
    if not ranks:
        raise UserError(f"no rank of {place} is running on this machine", hint="`keepstep runs` lists runs")
    return folder, ranks
