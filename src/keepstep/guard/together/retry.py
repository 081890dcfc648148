# SPDX-License-Identifier: Apache-2.0
"""``keepstep.retry(function, ...)``: try again what may be over soon, alone or on all ranks together."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from keepstep.base.redact import redact
from keepstep.base.wording import duration, shorten
from keepstep.errors import OutOfStep
from keepstep.guard import startup_hook
from keepstep.guard.together.rounds import WAIT_S, Rounds, rounds
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.passing_errors import breaks_group, is_passing

T = TypeVar("T")

_own_chance = random.SystemRandom()  # the script's seeds stay as they are


def retry(
    function: Callable[..., T],
    *args: Any,
    attempts: int = 5,
    pause_s: float = 1.0,
    longest_pause_s: float = 60.0,
    together: bool = False,
    also: tuple[type[Exception], ...] = (),
    wait_s: float = WAIT_S,
) -> T:
    """``function(*args)``, called again after an error that may be over soon, at most ``attempts`` times in all.

    Such errors are TensorFlow's UnavailableError, connections that are refused or reset, time-outs, a stale file
    handle, and a store that asks for fewer requests: those after which `keepstep run` would restart a run. Any other
    error is raised at once, except those in ``also``. The pauses double, from ``pause_s`` on, with some chance in them.

    With ``together=True`` all ranks call it, and after each attempt they wait for each other, at most ``wait_s``
    seconds: if it failed on one rank, all of them call it again; if one gives up, it raises its error, and the others
    raise :class:`keepstep.OutOfStep`. So no rank goes on to a collective that another one does not reach. Keep the
    collective itself out of the function: a rank that waits in it cannot be called back.
    """
    if function is next:
        raise TypeError(
            "retry(next, ...) would leave a batch out: an iterator that failed goes on with what comes after it; "
            "give retry what the iterator calls, such as the function that reads a file"
        )
    name = name_of(function)
    asking = rounds("keepstep.retry") if together else None
    for attempt in range(1, attempts + 1):
        error: Exception | None = None
        try:
            result = function(*args)
        except OutOfStep:
            raise
        except Exception as raised:
            error = raised
        gives_up = error is not None and (attempt == attempts or not (isinstance(error, also) or _may_be_over(error)))
        reason = in_words(error)
        if asking is not None:
            reason = all_agree(asking, f"{name}, attempt {attempt}", error, gives_up, wait_s)
        elif gives_up and error is not None:
            raise error
        if not reason:
            return result
        _pause(min(longest_pause_s, pause_s * 2 ** (attempt - 1)), f"{name}: {reason}", f"{attempt + 1} of {attempts}")
    raise ValueError(f"attempts={attempts}: there must be at least one")


def all_agree(asking: Rounds, what: str, error: Exception | None, gives_up: bool, wait_s: float) -> str:
    """Why all ranks try again; empty where none has to. Raises where one of them gives up."""
    failed = asking.ask(f"whether {what} failed", error is not None, wait_s, in_words(error))
    if not failed.yes:
        return ""
    over = asking.ask(f"whether to give up {what}", gives_up, wait_s, in_words(error))
    if gives_up and error is not None:
        raise error
    if over.yes:
        raise OutOfStep(f"{what}: given up on all ranks, because it failed on {over.first}")
    return f"failed on {failed.first}"


def name_of(function: Callable[..., Any]) -> str:
    """All ranks must call it by the same name."""
    named = getattr(function, "func", function)  # of a partial
    return str(getattr(named, "__name__", type(named).__name__))


def _may_be_over(error: Exception) -> bool:
    message = str(error)
    return not breaks_group(message) and any(is_passing(kind, message) for kind in kinds_of(error))


def kinds_of(error: Exception) -> tuple[str, ...]:
    """Its class and those that this is derived from, with their modules."""
    return tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)


def in_words(error: Exception | None) -> str:
    return shorten(redact(f"{type(error).__name__}: {error}"), 120) if error is not None else ""


def _pause(longest_s: float, reason: str, next_attempt: str) -> None:
    pause_s = _own_chance.uniform(longest_s / 2, longest_s)
    session = None if startup_hook.is_off() else startup_hook.session()
    if session is not None:
        session.say(f"{reason}; attempt {next_attempt} in {duration(pause_s)}")
    with session.during(int(BoxPhase.RETRY)) if session is not None else contextlib.nullcontext():
        threading.Event().wait(pause_s)  # time.sleep fails under libfaketime
