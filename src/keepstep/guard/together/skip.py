# SPDX-License-Identifier: Apache-2.0
"""``keepstep.skip_if(condition)``: all ranks skip a step, or none does."""

from __future__ import annotations

from typing import Any

from keepstep.guard.together.guarding import guarding
from keepstep.guard.together.rounds import WAIT_S, rounds


def skip_if(condition: Any, step: int | None = None, *, wait_s: float = WAIT_S) -> bool:
    """Whether to skip this step: True on every rank as soon as ``condition`` holds on one of them.

    Call it on every rank in every step, before the step's first collective (in PyTorch: before ``backward``). With
    ``step``, the ranks also make sure that they mean the same step. It waits for the other ranks, at most ``wait_s``
    seconds, through the guard's own exchange. Raises :class:`keepstep.OutOfStep` if a rank has left, does not answer
    in time, or asks about something else. A process that trains alone gets its own answer at once.
    """
    wanted = bool(condition)
    asking = rounds("keepstep.skip_if")
    if asking is None:
        return wanted
    named = "this step" if step is None else f"step {step}"
    answers = asking.ask(f"whether to skip {named}", wanted, wait_s)
    if answers.yes and (session := guarding()) is not None and session.who.rank == answers.yes[0]:
        at = f"step {step}" if step is not None else f"the step after step {session.steps}"
        session.say(f"all ranks skip {at}, as {answers.first} asked")
    return bool(answers.yes)
