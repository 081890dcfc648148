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
NEVER_RAN = USAGE, NOT_EXECUTABLE, NOT_FOUND = 2, 126, 127


def budget_used(attempts: Sequence[Situation]) -> int:
    """How many attempts in a row, up to the last one, got no further than those before them; at least 1."""
    return max(_idle(attempts), 1)


def restarts_in_vain(attempts: Sequence[Situation]) -> int:
    """How many restarts there were since the last progress."""
    idle = _idle(attempts)
    return idle - 1 if idle == len(attempts) else idle


def _idle(attempts: Sequence[Situation]) -> int:
    idle = 0
    for place in range(len(attempts) - 1, -1, -1):
        if _got_further(attempts[place], attempts[:place]):
            break
        idle += 1
    return idle


def _got_further(now: Situation, before: Sequence[Situation]) -> bool:
    """Whether an attempt reached what no earlier one had."""
    if now.shown_step is not None:
        return now.shown_step > max((each.shown_step or 0 for each in before), default=0)
    if now.resumed and now.saved:
        return True
    if now.steps is not None:
        return now.steps > max((each.steps or 0 for each in before), default=0)
    return False


def is_final(now: Situation, before: Sequence[Situation], *, cut_short: bool) -> tuple[bool, str]:
    """Whether another attempt would end the same way, and why we think so.

    ``cut_short``: a suspected hang was not waited for until it was certain, so seeing it twice proves nothing.
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
    if now.happened is Happened.SUSPECTED and cut_short:
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


def _same_place(then: Situation, now: Situation) -> bool:
    """Whether both came equally far.

    By the steps they printed if they print each one, else by the guard's count; else both ended soon, without a step.
    """
    if then.shown_every == 1 and now.shown_every == 1:
        return then.shown_step == now.shown_step
    if not any((then.steps, now.steps, then.shown_step, now.shown_step)):
        return (then.steps is not None and now.steps is not None) or max(then.lived_s, now.lived_s) < SOON_S
    return then.steps is not None and then.steps == now.steps and then.shown_step == now.shown_step
