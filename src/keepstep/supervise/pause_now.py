# SPDX-License-Identifier: Apache-2.0
"""Ask the ranks of a running job to wait after the same step, and let them go on."""

from __future__ import annotations

import time
from pathlib import Path

from keepstep.errors import Unavailable, UserError
from keepstep.signals.blackbox import BoxPhase
from keepstep.store import pause_request
from keepstep.supervise.running_ranks import RunningRank, led_attempt, running_ranks

POLL_S = 0.1
ELSEWHERE = "`keepstep runs` lists runs; one on several nodes is asked where its folder is"


def pause_now(place: Path, longest_s: float, wait_s: float) -> tuple[int, int]:
    """How many ranks wait, and after which step. Raises where nothing runs, or not all of them wait."""
    folder, count, ranks = _running(place)
    if pause_request.asked(folder) is not None:
        raise UserError(f"{place} has been asked to pause already", hint=f"`keepstep resume {place}` ends that pause")
    if deaf := sum(not rank.pauses_on_request for rank in ranks):
        raise Unavailable(
            f"{deaf} of {len(ranks)} ranks cannot be asked to pause",
            hint="`keepstep run` without parameter servers starts ranks that can",
        )
    request, until = pause_request.ask(folder, longest_s), time.monotonic() + wait_s
    while time.monotonic() < until:
        time.sleep(POLL_S)
        step = _waits_after(ranks) if ranks else pause_request.answered(folder, request.number)
        if step is not None:
            return count, step
        if pause_request.asked(folder) != request:
            raise Unavailable("the request was withdrawn, so no rank pauses", hint=f"`keepstep why {place}` says more")
    raise Unavailable(
        f"asked, but not all ranks wait after {wait_s:.0f} s",
        hint=f"they wait after their next step, if the guard sees it; `keepstep resume {place}` withdraws it",
    )


def resume_now(place: Path) -> int:
    """How many ranks may go on. Raises where no pause stands."""
    folder, count, _ = _running(place)
    if pause_request.asked(folder) is None:
        raise UserError(f"{place} has not been asked to pause")
    pause_request.withdraw(folder)
    return count


def _waits_after(ranks: tuple[RunningRank, ...]) -> int | None:
    """After which step all of them wait."""
    doings = [rank.doing() for rank in ranks]
    steps = [each.steps for each in doings if each is not None and each.phase is BoxPhase.RETRY]
    return max(steps) if len(steps) == len(ranks) else None


def _running(place: Path) -> tuple[Path, int, tuple[RunningRank, ...]]:
    """Where to ask, how many ranks that asks, and those of them whose boxes are on this machine."""
    if (led := led_attempt(place)) is not None:
        return led.folder, led.ranks, ()
    folder, ranks = running_ranks(place)
    if not ranks:
        raise UserError(f"no rank of {place} is running on this machine", hint=ELSEWHERE)
    return folder, len(ranks), ranks
