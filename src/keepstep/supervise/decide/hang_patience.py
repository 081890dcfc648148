# SPDX-License-Identifier: Apache-2.0
"""How long to wait for a hang that nothing proves: as long as a restart would cost. Pure.

Waiting that long and then restarting costs at most twice what the better choice would have cost, whatever the truth is.
This holds only for a rank that shows no sign of work and is not starting, compiling, evaluating or saving. The restart
may have been wrong, so a silence at the same place gets twice as long the next time. The last attempt waits
ten minutes, unless it was silent there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.base.wording import duration
from keepstep.supervise.decide.situation import Situation

LONG_S, LONG_STEPS = 600.0, 50
"""If the cost of a restart is unknown, in a known pause, and in the last attempt."""
LEAST_S = 5.0
"""The least wait, however cheap a restart is."""
BUSY_S = 2.5
"""A rank that has worked this recently is at work ..."""
ASK_AGAIN_S = 30.0
"""... and is looked at again after this long."""
ENDURED = 3.0
"""A silence may last this many times as long as one at the same line that ended by itself."""
IN_STEPS = ("step", "between", "alone")
"""Silences outside starts, compilations, evaluations and checkpoints."""
FIRST_S, LONGEST_S = 1.0, 300.0
"""Before a restart: doubled each time."""


@dataclass(frozen=True, slots=True)
class HangWait:
    seconds: float
    reason: str
    kind: str
    """``busy``, ``cost`` or ``long``."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a restart costs."""

    start_s: float
    work_s: float
    since: str

    @property
    def all_s(self) -> float:
        return self.start_s + self.work_s

    @property
    def words(self) -> str:
        parts = f"{duration(self.start_s)} to start, {duration(self.work_s)} of work since {self.since}"
        return f"a restart costs about {duration(self.all_s)} ({parts})"


def cost_of(now: Situation) -> Cost | None:
    """What a restart would cost; None before the first step."""
    if now.start_s is None:
        return None
    saved = now.saved_step is not None and now.unsaved_s is not None
    work = now.unsaved_s if saved else now.work_s
    since = "the start of the attempt, with nothing saved"
    if saved:
        since = "its last checkpoint" if now.resumed else f"step {now.saved_step}"
    return Cost(now.start_s, now.lived_s if work is None else work, since)


def is_at_work(now: Situation) -> bool:
    """Whether those that the others wait for have shown a sign of work a moment ago."""
    return now.kind == "busy" or (now.idle_s is not None and now.idle_s < BUSY_S)


def wait_for(
    now: Situation, before: Sequence[Situation], *, asked_s: float | None, left: int, who: str, final: bool = False
) -> HangWait | None:
    """How long to wait on; None when it has been long enough.

    ``left``: attempts that may follow. ``final``: another one would end the same way.
    """
    stopped = now.stopped_s or 0.0
    so_far = f"no progress for {duration(stopped)}"
    then = "the run is ended" if final or left <= 0 else "it is restarted"
    unproven = now.unproven
    if asked_s is not None:
        return _rest(asked_s - stopped, f"{unproven} ({so_far}); if there is none by then, {then}", "long")
    if is_at_work(now):
        return HangWait(ASK_AGAIN_S, f"{who} is at work, so it is not restarted", "busy")
    long = max(LONG_S, LONG_STEPS * (now.usual_s or 0.0))
    cost = cost_of(now)
    again = sum(each.happened is now.happened and _same_place(each, now) for each in before)
    if cost is None or now.kind not in IN_STEPS or (left <= 0 and not again):
        last = ", and this is the last attempt" if left <= 0 else ""
        return _rest(long - stopped, f"{unproven} ({so_far}){last}; if there is none by then, {then}", "long")
    whole = min(max(max(cost.all_s, LEAST_S) * 2.0**again, ENDURED * (now.endured_s or 0.0)), long)
    longer = f", {2**again} times as long because it went silent at the same place before" if again else ""
    if now.endured_s is not None:
        longer = f", because a silence of {duration(now.endured_s)} at the same place ended by itself before"
    idle = stopped if now.idle_s is None else min(now.idle_s, stopped)
    return _rest(whole - idle, f"{unproven}; {cost.words}; waiting {duration(whole)}{longer}, then {then}", "cost")


def backoff_s(restarts: int, chance: float) -> float:
    """How long to wait before a restart: twice as long each time, and by chance a little less.

    ``restarts``: how many there were since the last progress. ``chance`` in [0, 1) spreads out runs that failed
    together. The first restart waits for nothing: most faults end with their process, and every second costs all ranks.
    """
    if restarts <= 0:
        return 0.0
    full = min(LONGEST_S, FIRST_S * 2.0 ** min(restarts - 1, 30))
    return round(full * (1.0 - 0.5 * min(max(chance, 0.0), 1.0)), 2)


def _rest(seconds: float, reason: str, kind: str) -> HangWait | None:
    return HangWait(seconds, reason, kind) if seconds > 0 else None


def _same_place(then: Situation, now: Situation) -> bool:
    if then.place is not None and now.place is not None:
        return then.place == now.place
    return then.first_rank == now.first_rank
