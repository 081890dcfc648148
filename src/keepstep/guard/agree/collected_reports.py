# SPDX-License-Identifier: Apache-2.0
"""Bring together what the guards on all hosts saw, where they do not share a folder.

Every rank publishes what is worth reporting through the exchange. Rank 0 writes down, beside its own notes, what it
hears from ranks whose notes are not in its folder. Without an exchange, `keepstep why` reads each rank's folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from keepstep.base.safe_files import append
from keepstep.guard.exchange import Exchange

if TYPE_CHECKING:
    from keepstep.guard.own_rank import Identity
    from keepstep.guard.protocols import Schedule

TOLD = frozenset(
    {
        "ContractBroken", "BatchOdd", "RankLate", "Recompiling", "WorldFormed", "PeerSilent", "GuardPart", "RankEnded",
        "RankRaised", "CollectivesIssued", "LossNotFinite", "FirstNonFinite", "NeverExchanged", "DevicesLeft",
        "ComputedOdd", "OddOfTwo", "ReplicaOdd", "ReplicasNotFinite", "LeftItsPast",
    }
)  # fmt: skip
MOST = 200
"""Messages from one rank."""
PERIOD_S = 2.0


class Gathers(Protocol):
    """Who this rank is, and where its guard writes."""

    @property
    def who(self) -> Identity: ...
    @property
    def folder(self) -> Path | None: ...
    @property
    def pulse(self) -> Schedule: ...


class NotesOfAll:
    """One rank's part in it: all publish, rank 0 also collects."""

    def __init__(self, session: Gathers, exchange: Exchange, prefix: str) -> None:
        self._session, self._exchange, self._prefix = session, exchange, prefix
        self._published = 0
        self._next: dict[int, int] = {}
        self._waiting: list[dict[str, Any]] = []
        session.pulse.every(PERIOD_S, "gathering of notes", self.turn)

    def offer(self, line: dict[str, Any]) -> None:
        """A line of this rank's notes that others may need; never waits."""
        if line["fact"] in TOLD and self._published + len(self._waiting) < MOST:
            self._waiting.append(line)

    def turn(self) -> None:
        """Publish what is queued; collect what others published. Called by the guard's thread."""
        from keepstep.base.redact import redacted

        while self._waiting and self._session.who.rank:
            line = self._waiting.pop(0)
            self._exchange.put(
                self._key(self._session.who.rank, self._published), json.dumps(redacted(line), default=str)
            )
            self._published += 1
        if self._session.who.rank == 0 and self._session.folder is not None:
            self._collect(self._session.folder)

    def _collect(self, folder: Path) -> None:
        lines = []
        for rank in range(1, self._session.who.world or 1):
            if rank not in self._next and any(folder.glob(f"rank{rank}-*.notes.jsonl")):
                continue  # the folder is shared, at least with this rank
            number = self._next.get(rank, 0)
            if number < MOST and (text := self._exchange.get(self._key(rank, number))) is not None:
                self._next[rank] = number + 1
                lines.append(text + "\n")
        if lines:
            append(folder / f"others-{os.getpid()}.notes.jsonl", "".join(lines).encode(errors="replace"))

    def _key(self, rank: int, number: int) -> str:
        return f"{self._prefix}/notes/r{rank}/{number}"
