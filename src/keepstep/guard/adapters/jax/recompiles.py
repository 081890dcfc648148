# SPDX-License-Identifier: Apache-2.0
"""Functions that JAX compiles again and again: which one, and which argument keeps changing."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.guard.protocols import Reports

OFTEN = 5
"""Compilations of one function after the first step, in..."""
WITHIN = 10
"""...this many steps: a few sizes at the start, or one per epoch, are healthy."""
MOST_TOLD = 5
MOST_FUNCTIONS = 2000


class _History:
    def __init__(self) -> None:
        self.count = 0
        self.at: deque[int] = deque(maxlen=OFTEN)
        self.arguments: deque[dict[str, str]] = deque(maxlen=OFTEN)
        self.texts: deque[str | None] = deque(maxlen=OFTEN)
        self.seconds: deque[float] = deque(maxlen=OFTEN)
        self.told = 0
        """The count when it was last reported."""


class Recompiles:
    """``compiled`` is called at every compilation, ``about_to_run`` before a program's first run."""

    def __init__(self, session: Reports) -> None:
        self._session = session
        self._functions: dict[str, _History] = {}
        self._last_s = 0.0
        self._compiled = 0
        self._told = 0

    def compiled(self, computation: Any, seconds: float) -> None:
        self._last_s = seconds
        self._compiled += 1

    def about_to_run(self, name: str, arguments: Sequence[tuple[str, str]], lowered: dict[str, str] | None) -> None:
        if not self._compiled or len(self._functions) > MOST_FUNCTIONS:
            return
        history = self._functions.setdefault(name, _History())
        history.count += 1
        history.arguments.append(dict(arguments))
        history.seconds.append(self._last_s)
        history.texts.append(lowered.get("the whole text") if lowered else None)
        self._compiled = 0
        steps = self._session.steps
        if not steps:
            return
        if not history.at or history.at[-1] != steps:
            history.at.append(steps)
        if (
            len(history.at) == OFTEN
            and steps - history.at[0] <= WITHIN
            and history.count >= 2 * history.told
            and are_of_one(history.arguments)
        ):
            if not history.told and self._told >= MOST_TOLD:
                return
            self._told += not history.told
            self._tell(name, history)
            history.told = history.count

    def _tell(self, name: str, history: _History) -> None:
        reason = changing(list(history.arguments)) or (
            "its arguments have not changed: jax.jit is called again in the loop"
            if None in history.texts or len(set(history.texts)) == 1
            else "its arguments have not changed but the program has: a static argument or a captured value changes"
        )
        seconds = round(sum(history.seconds) / len(history.seconds), 3)
        fields = {"function": name, "count": history.count, "reason": reason, "seconds": seconds, "storm": True}
        self._session.note(
            "Recompiling", fields, f"{name} was compiled {history.count} times, {seconds:g} s each: {reason}"
        )
        if not history.told:
            self._session.say(
                f"{name} is compiled again and again ({history.count} times, {seconds:g} s each): {reason}"
            )


def are_of_one(versions: Iterable[Mapping[str, str]]) -> bool:
    """Whether these may be versions of one function. Many share a name (``<lambda>``, ``_fun`` of every pmap).

    Only sizes, static and captured values can change without end; types, ranks and the number of arguments are soon
    all known.
    """
    return (
        len({tuple((label, _SIZES.sub(_rank, words)) for label, words in version.items()) for version in versions}) == 1
    )


_SIZES = re.compile(r"\[[^\[\]]*\]")


def _rank(sizes: re.Match[str]) -> str:
    return f"[{sizes[0].count(',')}]" if len(sizes[0]) > 2 else "[]"


def changing(versions: Sequence[dict[str, str]]) -> str | None:
    """The arguments whose shape or dtype is not the same in all versions, with their last values."""
    found: list[str] = []
    if len({tuple(version.items()) for version in versions}) * 2 <= len(versions):
        return None  # usually the same ones again: they are not the reason
    for label in versions[-1] if versions else ():
        values = [version.get(label, "(none)") for version in versions]
        if len(set(values)) > 1:
            found.append(f"argument {label} was {', then '.join(values[-3:])}")
    if len(found) > 2:
        found = [*found[:2], f"and {len(found) - 2} more arguments"]
    return "; ".join(found) or None
