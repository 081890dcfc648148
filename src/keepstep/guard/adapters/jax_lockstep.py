# SPDX-License-Identifier: Apache-2.0
"""A program that only one rank is about to run, while the others are already in their next step.

A rank with a batch of another size compiles a new program for it and waits, for a moment, for the others' side of its contract; they
execute a program that they know, state nothing, and wait for that rank in a collective. So every rank keeps a record of which program
with collectives it executed at which place, and says at which place it states a contract. A rank that stands still and has handed over
that execution already states, by the guard's thread, what it ran there: the difference is certain, and usually told before the odd
program runs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keepstep.core.contracts import KEPT, Subject
from keepstep.guard.user_line import line_of_thread

if TYPE_CHECKING:
    from keepstep.guard.session import Session

TOPIC = "at program"
REMEMBERED = 2000
"""How often another program than the one before was executed."""
STILL_S = 0.4
"""Without an execution for so long, a rank looks whether another one waits for its word, and again, ever less often..."""
LONGEST_S = 1.0
"""...but at least so often."""
MOVING_S = 5.0
"""One that gets on looks so often: the other may not have been answered in time, and gone on."""
FAR = 16
"""Executions after the place in question, before one that gets on speaks of it: ranks in step are never so far apart unanswered."""
RANKS_A_SECOND = 64
"""In large worlds all look less often: one coordinator answers them."""
GIVEN_UP_S = 600.0
"""Nobody waits for a word for longer than that."""
TRIES = 5
WORDS = 8
"""Of the contracts that a rank stated last."""


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """What this rank says of a program that all ranks must run together."""

    name: str
    title: str
    stated: dict[str, str]


class Lockstep:
    """The record of this rank's executions over all processes, and its contracts on them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.executed = 0
        self.last: Side | None = None
        self.turns: deque[tuple[int, Side | None]] = deque(maxlen=REMEMBERED)
        """Where the program changed: the place of its first execution, counted from 1, and the program."""
        self.sure = True
        """Every execution is counted. Where that is in doubt, nothing is concluded from the count."""
        self._contracts = 0
        self._words: list[str] = []
        self._lock = threading.Lock()
        self._seen, self._since = 0, time.monotonic()
        self._due = self._due_moving = 0.0
        self._heard_of = (0, 0)

    def agree(self, side: Side) -> None:
        """All ranks are about to run this program for the first time. Raises OutOfStep where one is not."""
        session, place = self._session, self.executed + 1
        number = self._contracts
        if self.executed and (passed := self._passed(number)):
            self._answer(number, passed)
        while not self._claim(number := self._contracts):
            pass
        self._words = [*self._words, f"{number}:{place if self.sure else 0}"][-WORDS:]
        session.tell_peers(TOPIC, " ".join(self._words))
        session.agree(Subject.PROGRAM, {"next program": side.title})
        session.agree(f"{Subject.PROGRAM} {side.name}", side.stated)
        if self.sure:
            self.sure = all(words.get(number, place) == place for words in self._heard().values())

    def look(self) -> None:
        """Called by the guard's thread: is a rank about to run something else than what this one has handed over?"""
        now, rest = time.monotonic(), (self._session.who.world or 1) / RANKS_A_SECOND
        if self.executed != self._seen:
            self._seen, self._since, self._due = self.executed, now, now + STILL_S
            if now >= self._due_moving:
                self._due_moving = now + MOVING_S + rest
                before, self._heard_of = self._heard_of, (self._contracts, self._passed(self._contracts))
                if before == self._heard_of and 0 < before[1] < self.executed - FAR:
                    self._answer(*before)
        elif self.executed and now >= self._due and now - self._since < GIVEN_UP_S:
            self._due = now + max(STILL_S, rest, min(LONGEST_S, (now - self._since) / 2))
            number = self._contracts
            if (place := self._passed(number)) and self.executed == self._seen:
                self._answer(number, place)

    def leave(self) -> None:
        """The last chance to say what this rank ran instead of what another one announced."""
        number = self._contracts
        if self.executed and (place := self._passed(number)):
            self._answer(number, place)

    def _passed(self, number: int) -> int:
        """A place that this rank has passed, at which another one states this contract; 0 where there is none."""
        if not self.sure:
            return 0
        places = [words.get(number, 0) for words in self._heard().values()]
        return next((place for place in places if 0 < place <= self.executed), 0)

    def _answer(self, number: int, place: int) -> None:
        """Say what this rank ran at a place, instead of what the other one is about to."""
        side, session = self._at(place), self._session
        if side is None or not self._claim(number):
            return
        where = line_of_thread(session.trains_in_thread)
        named = [each["next program"] for rank in self._heard() if (each := session.ahead(Subject.PROGRAM, rank))]
        session.state(Subject.PROGRAM, {KEPT: "yes", "next program": side.title}, where=where)
        if side.title in named:
            session.state(f"{Subject.PROGRAM} {side.name}", {KEPT: "yes", **side.stated}, where=where)

    def _at(self, place: int) -> Side | None:
        """What was executed at a place; None where that is no longer known."""
        for _ in range(TRIES):
            with contextlib.suppress(RuntimeError):  # the training has added to it meanwhile
                return next((side for first, side in reversed(self.turns) if first <= place), None)
        return None

    def _claim(self, number: int) -> bool:
        """Whether this thread is the one that states contract ``number``."""
        with self._lock:
            if self._contracts != number:
                return False
            self._contracts = number + 1
            return True

    def _heard(self) -> dict[int, dict[int, int]]:
        """The places at which every other rank stated its last contracts, by their number (0: it does not know)."""
        found: dict[int, dict[int, int]] = {}
        for rank, text in self._session.heard(TOPIC).items():
            pairs = (word.partition(":") for word in text.split())
            found[rank] = {int(number): int(place) for number, _, place in pairs if number.isdigit() and place.isdigit()}
        return found
