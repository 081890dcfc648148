# SPDX-License-Identifier: Apache-2.0
"""Whether a training has left its own past: a loss that rose at once and stays up, and a second sign that agrees.

A loss alone shows little. It may rise with the learning rate, with other data, or for a while by itself. So it must lie
clearly above all that it was in the window before, from one look to the next, for many looks, without coming down; no
learning rate rose and no epoch began there; and a layer's gradient norm, or its update for its weights, must have left
its own window at the same look.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

BEFORE, LATE = 36, 16
"""Looks before the change, and since."""
NEAR = 4
FAR = 8.0
"""In spreads of the window: so far off, a value is no longer an ordinary one."""
DRIFT = 3.0
LOSS_FLOOR, SIGN_FLOOR = 0.02, 0.14
"""The least spread: of the loss as a share of it, and of the logarithm of a sign."""
MADE_GOOD = 0.5
"""A loss that comes down by this share of its rise within LATE looks recovers: it is looked at again later."""
ROSE = 1.05
COVERED = 0.75
"""The share of looks at which a sign must be known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a training."""

    step: int
    loss: float
    rate: float
    """The learning rate..."""
    begun: int
    """... and how many epochs have begun."""
    signs: tuple[float, ...]
    """Logarithms; NaN where a sign is not known."""


@dataclass(frozen=True, slots=True)
class Departure:
    """What left its window: the medians since, and the windows before."""

    after_step: int
    """The last look at which all was as before."""
    loss: float
    loss_before: tuple[float, float]
    sign: int
    value: float
    value_before: tuple[float, float]


class Past:
    """The last readings of one training, and a rise that may yet recover."""

    def __init__(self) -> None:
        self._readings: list[Reading] = []
        self._risen: Departure | None = None
        self._middle = 0.0
        """The usual loss before the rise."""
        self._looks = 0
        """Since then."""

    def see(self, reading: Reading) -> Departure | None:
        """One more look; what has left its past by now, for the first time or still."""
        self._readings = [*self._readings[1 - BEFORE - LATE :], reading]
        if self._risen is None:
            self._risen, self._looks = self._rise(), LATE
        else:
            self._looks += 1
        risen = self._risen
        if risen is None or self._looks % LATE:
            return None
        losses = [each.loss for each in self._readings[-LATE:]]
        first, last = statistics.median(losses[:NEAR]), statistics.median(losses[-NEAR:])
        if last <= risen.loss_before[1]:
            self._risen = None
        elif min(losses) > risen.loss_before[1] and last - self._middle >= (1 - MADE_GOOD) * (first - self._middle):
            return replace(risen, loss=statistics.median(losses))
        return None

    @property
    def has_returned(self) -> bool:
        """Whether nothing is left of a rise."""
        return self._risen is None

    def _rise(self) -> Departure | None:
        """Whether the last LATE readings have left what the BEFORE ones before them show."""
        if len(self._readings) < BEFORE + LATE:
            return None
        before, late = self._readings[:BEFORE], self._readings[BEFORE:]
        loss = _left([each.loss for each in before], [each.loss for each in late], up=True)
        if loss is None or _is_explained(before, late):
            return None
        signs: list[tuple[float, int, float, tuple[float, float]]] = []
        for place in range(len(late[0].signs)):
            sign = _left([each.signs[place] for each in before], [each.signs[place] for each in late], least=SIGN_FLOOR)
            if sign is not None:
                signs.append((sign[0], place, sign[1], sign[2]))
        if not signs:
            return None
        self._middle = statistics.median(each.loss for each in before)
        _, place, value, (low, high) = max(signs)
        return Departure(before[-1].step, loss[1], loss[2], place, math.exp(value), (math.exp(low), math.exp(high)))


def _left(
    before: list[float], late: list[float], *, up: bool = False, least: float = 0.0
) -> tuple[float, float, tuple[float, float]] | None:
    """How many spreads the late values are off, their median, and the window before; None where they are within it."""
    known, new = [[each for each in values if math.isfinite(each)] for values in (before, late)]
    if len(known) < COVERED * len(before) or len(new) < COVERED * len(late):
        return None
    low, high = min(known), max(known)
    if min(new) <= high and (up or max(new) >= low):
        return None
    middle, now = statistics.median(known), statistics.median(new)
    spread = 1.4826 * statistics.median(abs(each - middle) for each in known)
    spread = max(spread, least or LOSS_FLOOR * abs(middle), 1e-12)
    recent, off = statistics.median(known[-NEAR:]) - middle, abs(now - middle) / spread
    drifts = (recent if up else abs(recent)) > DRIFT * spread  # a loss may have fallen
    return (off, now, (low, high)) if off >= FAR and not drifts else None


def _is_explained(before: Sequence[Reading], late: Sequence[Reading]) -> bool:
    """By a learning rate that rose, or by an epoch that began just then, where that is rare."""
    if max(each.rate for each in late) > ROSE * min(each.rate for each in before[-NEAR:]):
        return True
    begins = sum(now.begun != then.begun for then, now in itertools.pairwise(before))
    return late[0].begun != before[-1].begun and 2 * begins < len(before)
