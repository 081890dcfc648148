# SPDX-License-Identifier: Apache-2.0
"""Ranks that are fed the same batches, found while they train: the guards' threads exchange hashes, rank 0 compares.

Nothing here runs in a step, and a service that is gone ends the comparison without a word: the run is over then.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from keepstep.base.wording import count
from keepstep.base.wording import ranks as say_ranks
from keepstep.signals.same_batches import FIRST, fed_alike

if TYPE_CHECKING:
    from keepstep.guard.protocols import ComparesBatches

PART = "batches of all ranks"
TOPIC = "fed"
LOOK_S = 1.0
PEERS_AT_ONCE = 16
"""Ranks that are asked in one look: one service answers them all."""
FEW_S = 5.0
"""After this long, fewer than the first batches are compared: there may be no more."""
LONGEST_S = 60.0
"""The longest pause before a rank that has said nothing new is asked again."""
MOST_KEPT = 64


class FedAlike:
    """The hashes of this rank, and on rank 0 those of the others."""

    def __init__(self, session: ComparesBatches) -> None:
        self._session = session
        self._own: dict[str, str] = {}
        self._began = 0.0
        self._said = 0
        self._heard: dict[int, dict[str, str]] = {}
        self._due: dict[int, tuple[float, float]] = {}
        """When a rank is asked next, and how long after the time before."""
        self._told: set[tuple[int, ...]] = set()
        self._over = False

    def add(self, name: str, digest: str) -> None:
        """One more batch of this rank."""
        if not self._own:
            self._began = time.monotonic()
            self._session.pulse.every(LOOK_S, PART, self.look)
        if len(self._own) < MOST_KEPT:
            self._own.setdefault(name, digest)

    def look(self) -> None:
        """Called by the guard's thread."""
        exchange, who = self._session.exchange, self._session.who
        if self._over or exchange is None or who.rank is None or (who.world or 1) < 2:
            return
        own = dict(self._own)
        if len(own) < FIRST and time.monotonic() - self._began < FEW_S:
            return
        try:
            if len(own) > self._said and getattr(exchange, "overwrites", True):
                exchange.put(self._key(who.rank), json.dumps(own))
                self._said = len(own)
            if who.rank == 0 and self._hear(own):
                self._compare(own)
        except Exception as error:  # the service ends with the first rank that leaves
            self._over = True
            self._session.uncovered(PART, f"{type(error).__name__}: {str(error)[:200]}")

    def _hear(self, own: dict[str, str]) -> bool:
        """Ask those ranks that have not said all that this one has; whether any said something new."""
        exchange, now, asked, new = self._session.exchange, time.monotonic(), 0, False
        assert exchange is not None
        for rank in range(1, self._session.who.world or 1):
            known = self._heard.get(rank, {})
            due, pause = self._due.get(rank, (0.0, LOOK_S / 2))
            if now < due or asked == PEERS_AT_ONCE or own.keys() <= known.keys():
                continue
            asked += 1
            found = _read(exchange.get(self._key(rank)))
            if len(found) > len(known):
                self._heard[rank], pause, new = found, LOOK_S / 2, True
            self._due[rank] = (now + min(2 * pause, LONGEST_S), min(2 * pause, LONGEST_S))
        return new

    def _compare(self, own: dict[str, str]) -> None:
        session = self._session
        for each in fed_alike({0: own, **self._heard}):
            if any(set(each.ranks) <= set(known) for known in self._told):
                continue
            self._told.add(each.ranks)
            many = count(len(each.batches), "batch", "batches")
            which = (
                f"the first {many}" if each.batches[0].startswith("batch ") else f"{many}, from {each.batches[0]} on,"
            )
            words = f"{say_ranks(each.ranks)} are fed the same records: {which} of these ranks have the same content"
            session.note("RanksFedAlike", {"ranks": each.ranks, "batches": each.batches, "step": session.steps}, words)
            session.say(words)
            session.flush()

    def _key(self, rank: int) -> str:
        return f"keepstep/{self._session.who.attempt}/{TOPIC}/r{rank}"


def _read(text: str | None) -> dict[str, str]:
    found = json.loads(text) if text else {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}
