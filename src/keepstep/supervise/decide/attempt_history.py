# SPDX-License-Identifier: Apache-2.0
"""What the earlier attempts of a run say about the next one. Pure.

How many of them got nowhere, and whether another would end the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.base.wording import duration
from keepstep.supervise.decide.cause_recurs import Returns, returns
from keepstep.supervise.decide.hang_patience import cost_of
from keepstep.supervise.decide.situation import Happened, Situation

SOON_S = 60.0
"""A program that has shown no step in this time, twice, failed in its start both times."""
SLACK = 3
"""Steps: what stops at the same place each time has done one more or one less."""
HANGS = (Happened.STOPPED, Happened.SUSPECTED)
NEVER_RAN = USAGE, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127


def budget_used(attempts: Sequence[Situation]) -> int:
    """How many attempts there were since the last one that got further, that one included."""
    used, mark = 0, attempts[0]
    for each in attempts:
        if used and _got_further(each, mark):
            used, mark = 0, each
        used += 1
    return used


def restarts_in_vain(attempts: Sequence[Situation]) -> int:
    """How many restarts there were since the last progress."""
    return budget_used(attempts) - 1


def _got_further(now: Situation, mark: Situation) -> bool:
    """Whether an attempt clearly got beyond ``mark``: the earlier one that got furthest."""
    if now.shown_step is not None:
        return _exceeds(now.shown_step, mark.shown_step, max(SLACK, now.shown_every or 1))
    if now.resumed and now.saved:
        return True
    return now.steps is not None and _exceeds(now.steps, mark.steps, SLACK)


def _exceeds(now: int, mark: int | None, slack: int) -> bool:
    """The first step of all is progress; after it, a step or two more are chance."""
    return now > mark + slack if mark else now > 0


def is_final(now: Situation, before: Sequence[Situation], *, cut_short: bool) -> tuple[bool, str]:
    """Whether another attempt would end the same way, and why we think so.

    ``cut_short``: a suspected hang was waited for only as long as a restart would cost. Seen twice, it is final if the
    rank was at the same line and step both times: the second time, the wait was twice as long.
    """
    cause = now.root
    if cause is None:
        if now.happened is Happened.EXITED and not now.steps:
            if now.code == USAGE and not now.shown_step:
                return True, "exit code 2 means that the command line is wrong"
            if now.code in (NOT_EXECUTABLE, NOT_FOUND):
                return True, "the command could not be run"
        how, why = Returns.PERHAPS, "the cause is unknown and may be over"
    else:
        how, why = returns(cause, now.steps)
    if how is Returns.SURELY:
        return True, why
    same = [each for each in before if _same_cause(each, now) and _same_place(each, now)]
    if now.happened is Happened.SUSPECTED and cut_short and not any(_same_line(each, now) for each in same):
        cost, idle = cost_of(now), duration(now.idle_s if now.idle_s is not None else now.stopped_s or 0.0)
        return False, f"{cost.words}, and it has been idle for {idle}" if cost is not None else f"idle for {idle}"
    if now.happened is Happened.NODE_LOST:
        return False, f"{why}, and other nodes can take its place"
    if same and not (how is Returns.UNTIL_IT_IS_OVER and not now.steps):
        return True, f"attempt {same[-1].number} ended the same way at the same place ({now.reached})"
    return False, why


def _same_cause(then: Situation, now: Situation) -> bool:
    earlier, cause = then.root, now.root
    if earlier is None or cause is None:
        ended = (then.code, then.signal, then.happened) == (now.code, now.signal, now.happened)
        return earlier is cause and ended and then.first_rank == now.first_rank
    return earlier.cause is cause.cause


def _same_line(then: Situation, now: Situation) -> bool:
    """Whether both went silent at the same line of the script."""
    return then.happened in HANGS and now.happened in HANGS and then.place is not None and then.place == now.place


def _same_place(then: Situation, now: Situation) -> bool:
    """Whether both came equally far; where both went silent at one line, a step or two more or less are chance.

    By the steps they printed if they print each one, else by the guard's count; else both ended soon, without a step.
    """
    slack = SLACK if _same_line(then, now) else 0
    if then.shown_every == 1 and now.shown_every == 1:
        return _close(then.shown_step, now.shown_step, slack)
    if not any((then.steps, now.steps, then.shown_step, now.shown_step)):
        return (then.steps is not None and now.steps is not None) or max(then.lived_s, now.lived_s) < SOON_S
    shown = max(slack, then.shown_every or 0, now.shown_every or 0) if slack else 0
    return (
        then.steps is not None
        and _close(then.steps, now.steps, slack)
        and _close(then.shown_step, now.shown_step, shown)
    )


def _close(then: int | None, now: int | None, slack: int) -> bool:
    return then == now or (then is not None and now is not None and abs(then - now) <= slack)
