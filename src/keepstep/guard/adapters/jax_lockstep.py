# SPDX-License-Identifier: Apache-2.0
"""A program that only one rank is about to run, while the others are already in their next step.

A rank with a batch of another size compiles a new program for it and waits for the others' side of its contract; they execute
a program that they know, state nothing, and wait for that rank in a collective. So every rank counts its executions
of programs with collectives, and says at which one it states a contract. A rank that stands still and has handed over that
execution already states, by the guard's thread, what it ran instead: the difference is certain, and told before the odd program runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keepstep.core.contracts import Subject

if TYPE_CHECKING:
    from keepstep.guard.session import Session

TOPIC = "at program"
PATIENCE_S = 60.0
"""For the others' side of a program: they may still compile, and the program itself would wait for them as long as it takes."""
STILL_S = 0.5
"""Without an execution for so long, a rank looks whether another one waits for its word..."""
GIVEN_UP_S = 90.0
"""...and no longer than that: nobody waits for so long."""


class Lockstep:
    """The count of this rank's executions over all processes, and its contracts on them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.executed = 0
        self.last = ""
        """The name of the program that was executed last."""
        self.sure = True
        """Every execution is counted. Where that is in doubt, nothing is concluded from the count."""
        self._contracts = 0
        self._stated: dict[str, dict[str, str]] = {}
        self._titles: dict[str, str] = {}
        self._answered = -1
        self._seen, self._since = 0, time.monotonic()

    def agree(self, name: str, stated: Mapping[str, str], title: str = "") -> None:
        """All ranks are about to run this program for the first time. Raises OutOfStep where one is not."""
        session, number, began = self._session, self._contracts, time.monotonic()
        if self._answered >= number:  # the guard's thread has spoken for this rank: it is out of step already
            return
        self._contracts = number + 1
        session.tell_peers(TOPIC, f"{number}:{self.executed + 1 if self.sure else 0}")
        self._titles[name] = title or name
        session.agree(Subject.PROGRAM, {"next program": self._titles[name]}, patience=PATIENCE_S)
        left = PATIENCE_S - (time.monotonic() - began)
        if left > 0:
            session.agree(f"{Subject.PROGRAM} {name}", stated, patience=left)
        else:
            session.state(f"{Subject.PROGRAM} {name}", stated)
        self._stated[name] = dict(stated)
        if self.sure and left > 0:
            self.sure = all(at == self.executed + 1 for other, at in self._heard().values() if other == number)

    def look(self) -> None:
        """Called by the guard's thread: is a rank about to run something else than what this one has handed over?"""
        now = time.monotonic()
        if self.executed != self._seen:
            self._seen, self._since = self.executed, now
        elif self.sure and self.executed and STILL_S < now - self._since < GIVEN_UP_S:
            number = self._contracts
            if any(other == number and 0 < at <= self._seen for other, at in self._heard().values()):
                self._answer(number)

    def _answer(self, number: int) -> None:
        if self._answered >= number or self.executed != self._seen or self._contracts != number:
            return
        self._answered = number
        self._session.state(Subject.PROGRAM, {"next program": self._titles.get(self.last, self.last)})
        known = self._stated.get(self.last)
        if known is not None:
            self._session.state(f"{Subject.PROGRAM} {self.last}", known)

    def _heard(self) -> dict[int, tuple[int, int]]:
        """Which contract every other rank states, and at which of its executions (0: it does not know)."""
        found = {}
        for rank, word in self._session.heard(TOPIC).items():
            number, _, at = word.partition(":")
            if number.isdigit() and at.isdigit():
                found[rank] = (int(number), int(at))
        return found
