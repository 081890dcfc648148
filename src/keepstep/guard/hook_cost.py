# SPDX-License-Identifier: Apache-2.0
"""What the hooks cost in short steps: where that exceeds their share, only one step in many is recorded in full.

The other steps are lean: they are counted and their phases are followed, but not written down, and their batches are
not looked at. If a lean step takes long, the guard's own thread writes it down after all (:meth:`Session.catch_up`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from keepstep.guard.protocols import BatchChecks

EVERY = 23
"""A prime: loaders have two, four or eight workers, and their pattern must not always hit the same steps."""
MOST_SHARE, LITTLE = 0.003, 0.001
"""Shares of a step: above the first, the hooks cost too much; below the second, they no longer do."""
WHY = f"the hooks took more than {MOST_SHARE:.1%} of such short steps, so one in {EVERY} is recorded in full"
"""The same text on every rank, so it is reported once."""
SHORT_NS = 40_000_000
"""In longer steps the hooks do not matter: what looks expensive there is a thread waiting for a processor."""
FEWEST = 20
"""The fewest fully recorded steps that are weighed."""


class Weighed(Protocol):
    """The steps so far and what the hooks cost in them; ``every`` is what thrift sets."""

    every: int

    @property
    def steps(self) -> int: ...
    @property
    def in_full(self) -> int: ...
    @property
    def spent_ns(self) -> int: ...
    @property
    def step_ended(self) -> int: ...
    @property
    def strict(self) -> bool: ...
    @property
    def batches(self) -> BatchChecks: ...

    def uncovered(self, part: str, why: str) -> None: ...


class Thrift:
    """Called by the guard's own thread."""

    period_s = 5.0
    part = "thrift"

    def __init__(self, session: Weighed) -> None:
        self._session = session
        self._weighed = self._steps = self._spent = self._at = 0

    def __call__(self) -> None:
        session = self._session
        steps, full, spent, at = session.steps, session.in_full, session.spent_ns, session.step_ended
        weighed = full - self._weighed
        if weighed < FEWEST:
            return
        first = not self._at
        cost, step = (spent - self._spent) / weighed, (at - self._at) / (steps - self._steps)
        self._weighed, self._steps, self._spent, self._at = full, steps, spent, at
        if first:
            return  # what is done once, at the start, is not what a step costs
        if session.strict or session.batches.declared:
            session.every = 1
        elif step < SHORT_NS and cost > step * MOST_SHARE:
            session.every = EVERY
            session.uncovered("phases and batches of every step", WHY)
        elif step > SHORT_NS or cost < step * LITTLE:
            session.every = 1
