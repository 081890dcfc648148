# SPDX-License-Identifier: Apache-2.0
"""Who keeps the others waiting, found while all train: each rank tells its rounds, rank 0 compares them.

In synchronous training all ranks' steps take equally long and end together; only the waiting differs. How a rank
sees that it waits is its framework's business.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keepstep.guard.record.profile import ask_for_straggler
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.pace import CROWDED, EXPLAINS

if TYPE_CHECKING:
    from keepstep.guard.protocols import Compares

TOPIC, VERDICT = "pace", "late"
Told = Mapping[str, Any]
"""What one rank saw about itself in a round. ``phase``: where it was most often while it did not wait."""


class Rounds(ABC):
    """One rank's part; rank 0 compares. Called by the guard's thread."""

    in_a_row: int
    """The late rank must be the same in this many rounds after the first: a pause or two do not make it slow."""

    def __init__(self, session: Compares) -> None:
        self._session = session
        self._suspect: int | None = None
        self._times = 0
        self._told = False

    @abstractmethod
    def late_rank(self, told: Mapping[int, Told], world: int) -> int | None:
        """The one rank for which all others wait; None: there is none, or not all ranks have reported."""

    @abstractmethod
    def words(self, late: Told, others: list[Told]) -> tuple[dict[str, Any], str]:
        """The late rank's seconds in each step, the others', and how to say it."""

    def end_round(self, own: Told, world: int) -> None:
        session = self._session
        if session.who.rank == 0:
            self._compare({0: own} | {rank: json.loads(text) for rank, text in session.heard(TOPIC).items()}, world)
            return
        session.tell_peers(TOPIC, json.dumps(own))
        text = session.heard_from(VERDICT, 0) if not self._told else None
        if text is not None and (verdict := json.loads(text))["rank"] == session.who.rank:
            self._tell(verdict)

    def _compare(self, told: Mapping[int, Told], world: int) -> None:
        late = self.late_rank(told, world)
        self._times = self._times + 1 if late is not None and late == self._suspect else 0
        self._suspect = late
        if late is None or self._times < self.in_a_row:
            return
        fields, words = self.words(told[late], [each for rank, each in told.items() if rank != late])
        fields |= {
            "phase": BoxPhase(told[late]["phase"]).name.lower(),
            "against": "peers",
            "steps": told[late]["steps"],
        }
        verdict = {"rank": late, "fields": fields, "words": f"keeps the others waiting: {words}"}
        if late == 0:
            self._tell(verdict)
        else:
            self._session.tell_peers(VERDICT, json.dumps(verdict))

    def _tell(self, verdict: Told) -> None:
        if not self._told:
            self._told = True
            self._session.note("RankLate", verdict["fields"], verdict["words"])
            self._session.say(verdict["words"])
            ask_for_straggler(self._session)


def merely_lacks_processors(told: Told) -> bool:
    """Whether a rank only lacks processor time, like every rank on its host."""
    return bool(told.get("crowding", 0.0) >= CROWDED and told.get("ready", 0.0) >= EXPLAINS)
