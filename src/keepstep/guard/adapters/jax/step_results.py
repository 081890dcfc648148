# SPDX-License-Identifier: Apache-2.0
"""What a step of JAX returns, where it is a single number: a NaN loss is reported when it appears.

A few times per second the training's thread keeps the numbers of one step, and the guard's thread reads them when the
device has computed them: no thread waits for a device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.guard.protocols import Reports

MOST = 4
"""The most numbers of a step that are looked at."""
TWICE = 2
"""Looks in a row at which a number must be NaN: mixed precision skips single steps by design."""


class Results:
    """``wanted``: the next step's results may be taken. Written by the guard's thread, cleared by the training's."""

    def __init__(self, session: Reports) -> None:
        self._session = session
        self.wanted = False
        self._taken: tuple[str, int, list[Any]] | None = None
        self._was_finite: set[int] = set()
        self._odd: dict[int, tuple[int, int]] = {}
        """By place among the results: how often in a row it was not finite, and the step at which it was first."""
        self._told = False
        self.lost: Callable[[], None] = lambda: None
        """Called when the guard says so."""

    def take(self, name: str, leaves: list[Any]) -> None:
        """Keep the numbers among a step's results, unread. Called by the training's thread."""
        numbers = [each for each in leaves if getattr(each, "shape", None) == () and "float" in str(each.dtype)][:MOST]
        self._taken = (name, self._session.steps, numbers) if numbers else None
        self.wanted = False

    def look(self) -> None:
        """Called by the guard's thread."""
        if self._taken is not None:
            name, step, numbers = self._taken
            with contextlib.suppress(RuntimeError):  # deleted meanwhile: the training donated it
                if not all(each.is_deleted() or each.is_ready() for each in numbers):
                    return
                self._read(
                    name, step, {place: _value(each) for place, each in enumerate(numbers) if not each.is_deleted()}
                )
            self._taken = None
        self.wanted = not self._told

    def _read(self, name: str, step: int, values: dict[int, float | None]) -> None:
        for place, value in values.items():
            if value is None or isfinite(value):
                self._odd.pop(place, None)
                self._was_finite.add(place)
                continue
            often, since = self._odd.get(place, (0, step))
            self._odd[place] = (often + 1, since)
            sudden = place in self._was_finite or (isnan(value) and not self._was_finite)
            if often + 1 >= TWICE and sudden and not self._told:
                self._tell(name, since, value)

    def _tell(self, name: str, step: int, value: float) -> None:
        self._told = True
        session = self._session
        words = f"{name} has returned {value} since about step {step}"
        session.note("LossNotFinite", {"step": step, "world": session.who.world or 1, "began": []}, words)
        session.say(f"{words}: the loss is no longer finite")
        self.lost()


def _value(number: Any) -> float | None:
    """The number itself, which is already there."""
    own = number.addressable_shards[0].data if not number.is_fully_addressable else number
    return float(own)
