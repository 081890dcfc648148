# SPDX-License-Identifier: Apache-2.0
"""A program that only one rank is about to run, while the others are already in their next step.

A rank with a batch of another size compiles a new program for it and waits, for a moment, for the others' side of its
contract; they execute a program that they know, state nothing, and wait for that rank in a collective. So every rank
keeps a record of which program with collectives it executed at which place, and says at which place it states a
contract. A rank that makes no progress and has already handed over that execution states, from the guard's thread,
what it ran there: the difference is certain, and usually reported before the odd program runs.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import zlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keepstep.guard.record.user_line import line_of_thread
from keepstep.signals.contracts import KEPT, Subject

if TYPE_CHECKING:
    from keepstep.guard.protocols import Compares

TOPIC = "at program"
REMEMBERED = 2000
"""The last changes from one program to another that are kept."""
STILL_S = 0.4
"""After this long without an execution, a rank looks whether another waits for it, then less and less often..."""
LONGEST_S = 1.0
"""...but at least this often."""
MOVING_S = 5.0
"""A rank that makes progress looks this often: the other may have had no answer in time, and gone on."""
FAR = 16
"""Executions past the place in question before a rank that makes progress answers: more than ranks in step differ."""
RANKS_A_SECOND = 64
"""In large worlds all look less often: one coordinator answers them."""
GIVEN_UP_S = 600.0
"""No rank waits longer than this for an answer."""
TRIES = 5
WORDS = 8
"""How many of a rank's last contracts are kept."""


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """What this rank says about a program that all ranks must run together."""

    name: str
    title: str
    stated: dict[str, str]

    @property
    def mark(self) -> int:
        """A number for the program's title, the same on all ranks."""
        return zlib.crc32(self.title.encode())


@dataclass(frozen=True, slots=True)
class ContractWord:
    """At which place a rank states a contract (0: it does not know), and the mark of its program."""

    place: int
    mark: int = 0


class Lockstep:
    """The record of this rank's executions over all processes, and its contracts on them."""

    def __init__(self, session: Compares) -> None:
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
        while True:
            while not self._claim(number := self._contracts):
                pass
            if not self._tell(number, place if self.sure else 0, side):
                break
            began = time.monotonic()
            if not session.await_peers(functools.partial(self._all_told, number)):
                if self.sure and self._give_back(number):
                    self._note_silence(number, time.monotonic() - began)
                    return  # it goes on; when the others get here, the guard's thread says what was run
                break
            if not (passed := self._passed(number)):
                break
            self._keep_to(number, self._at(passed) or side)  # another rank stops where this one has already been
        session.agree(Subject.PROGRAM, {"next program": side.title})
        session.agree(f"{Subject.PROGRAM} {side.name}", side.stated)
        if self.sure:
            self.sure = all(words.get(number, ContractWord(place)).place == place for words in self._heard().values())

    def look(self) -> None:
        """Called by the guard's thread: is a rank about to run something other than what this one ran?"""
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
        places = [words[number].place for words in self._heard().values() if number in words]
        return next((place for place in places if 0 < place <= self.executed), 0)

    def _answer(self, number: int, place: int) -> None:
        """Say what this rank ran at a place, instead of what the other one is about to."""
        side = self._at(place)
        if side is not None and self._claim(number):
            self._tell(number, place, side)
            self._keep_to(number, side)

    def _keep_to(self, number: int, side: Side) -> None:
        """State what this rank ran, where another one is about to run something else."""
        session = self._session
        where = line_of_thread(session.trains_in_thread)
        same = any(words[number].mark == side.mark for words in self._heard().values() if number in words)
        session.state(Subject.PROGRAM, {KEPT: "yes", "next program": side.title}, where=where)
        if same:
            session.state(f"{Subject.PROGRAM} {side.name}", {KEPT: "yes", **side.stated}, where=where)

    def _tell(self, number: int, place: int, side: Side) -> bool:
        """Say at which place this rank states a contract (0: it does not know), and for which program."""
        with self._lock:
            self._words = [*self._words, f"{number}:{place}:{side.mark}"][-WORDS:]
            return self._session.tell_peers(TOPIC, " ".join(self._words))

    def _all_told(self, number: int) -> bool:
        heard = self._heard()
        return len(heard) >= (self._session.who.world or 1) - 1 and all(number in words for words in heard.values())

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

    def _give_back(self, number: int) -> bool:
        """Leave contract ``number`` unstated: the others have not reached it, and may reach it at another place."""
        with self._lock:
            if self._contracts != number + 1:
                return False
            self._contracts = number
            return True

    def _note_silence(self, number: int, waited_s: float) -> None:
        told = {rank for rank, words in self._heard().items() if number in words}
        missing = [
            rank for rank in range(self._session.who.world or 1) if rank != self._session.who.rank and rank not in told
        ]
        if missing and self._session.who.rank == 0:
            fields = {"subject": Subject.PROGRAM, "ordinal": number, "missing": missing, "waited_s": round(waited_s, 1)}
            who = ", ".join(map(str, missing[:8]))
            self._session.note(
                "PeerSilent", fields, f"no answer from rank {who} on program #{number} in {waited_s:.0f} s"
            )

    def _heard(self) -> dict[int, dict[int, ContractWord]]:
        """What every other rank said about its last contracts, by number."""
        found: dict[int, dict[int, ContractWord]] = {}
        for rank, text in self._session.heard(TOPIC).items():
            words = [
                [int(part) for part in word.split(":")] for word in text.split() if word.replace(":", "").isdecimal()
            ]
            found[rank] = {word[0]: ContractWord(*word[1:3]) for word in words if len(word) == 3}
        return found
