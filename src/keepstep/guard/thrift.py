# SPDX-License-Identifier: Apache-2.0
"""What the hooks cost, of short steps: where that is more than their share, only every few steps are recorded in full.

The other steps are lean: they are counted, and the phases of the training are kept in mind, but neither written down nor are
the batches looked at. A lean step that takes long is written down after all, by the guard's own thread (:meth:`Session.catch_up`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from keepstep.guard.needs import BatchChecks

EVERY = 23
"""Loaders have two, four or eight workers: what comes round with them must not always fall into the same steps."""
MOST_SHARE, LITTLE = 0.003, 0.001
"""Of a step: from where on the hooks are too dear, and below which they no longer are."""
WHY = f"the hooks took more than {MOST_SHARE:.1%} of such short steps, so that one in {EVERY} is recorded in full"
"""The same words on every rank: they are told once."""
SHORT_NS = 40_000_000
"""Longer steps bear the hooks: what looks dear there is a thread that was kept from its processor in them."""
FEWEST = 20
"""Steps in full that were weighed."""


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
