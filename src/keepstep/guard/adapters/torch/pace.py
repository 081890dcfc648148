# SPDX-License-Identifier: Apache-2.0
"""Who keeps the others waiting: each rank samples how often its training thread sleeps in a collective.

In synchronous training all ranks' steps take equally long and end together; only the waiting differs.
The rank that hardly ever waits, while all others do most of the time, is the slow one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from keepstep.base.proc_stat import read_stat
from keepstep.guard.adapters.torch.compare_collectives import WAITS as WAITING
from keepstep.guard.record.named_pauses import STEPPING
from keepstep.guard.record.processor_wait import crowding, is_ready
from keepstep.signals.blackbox import Phase
from keepstep.signals.pace import CROWDED, EXPLAINS

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import Torch

TOPIC, VERDICT = "pace", "late"
SAMPLES = 20
"""Samples per round: about four seconds."""
FEWEST_STEPS = 5
WAITS, HARDLY = 0.6, 0.1
MOST_RANKS = 256


@dataclass(frozen=True)
class Round:
    """What one rank saw about itself in a round."""

    number: int
    share: float
    """The share of samples in which it waited for others."""
    steps: int
    step_s: float
    phase: int = int(Phase.COMPUTE)
    line: str = ""
    """Where it was most often while it did not wait."""
    ready: float = 0.0
    """Samples without waiting in which it ran or waited for a processor."""
    crowding: float = 0.0


def late_rank(rounds: Mapping[int, Round], world: int) -> int | None:
    """The one rank for which all others wait; None: there is none, reports are missing, or its host is just crowded."""
    if len(rounds) < world or world < 2:
        return None
    least = min(rounds, key=lambda rank: rounds[rank].share)
    others = [each.share for rank, each in rounds.items() if rank != least]
    if (
        rounds[least].share > HARDLY
        or min(others) < WAITS
        or min(each.steps for each in rounds.values()) < FEWEST_STEPS
    ):
        return None
    merely_held = rounds[least].crowding >= CROWDED and rounds[least].ready >= EXPLAINS
    return None if merely_held else least


class Pace:
    """Called by the watch, at every look."""

    def __init__(self, state: Torch) -> None:
        self._state, self._session = state, state.session
        self._number = 0
        self._suspect: int | None = None
        self._told = False
        self._begin(0)

    def _begin(self, steps: int) -> None:
        self._seen = self._waited = self._ready = 0
        self._places: Counter[tuple[int, str]] = Counter()
        self._steps = steps

    def sample(self, doing: str, line: str, usual_s: float) -> None:
        """One look at this rank."""
        session = self._session
        phase = session.phase_now
        if phase not in STEPPING or not session.steps or self._state.world > MOST_RANKS:
            return
        self._seen += 1
        if doing in WAITING and self._sleeps():
            self._waited += 1
        else:
            self._places[phase, line] += 1
            self._ready += is_ready(self._state.native_thread)
        if self._seen >= SAMPLES:
            self._end_round(usual_s)

    def _sleeps(self) -> bool:
        """Whether the training's thread sleeps right now, according to the kernel."""
        number = self._state.native_thread
        seen = read_stat(thread=number) if number else None
        return seen is not None and seen.state == "S"

    def _end_round(self, usual_s: float) -> None:
        state, session = self._state, self._session
        self._number += 1
        phase, line = max(self._places, key=self._places.__getitem__) if self._places else (STEPPING[0], "")
        mine = Round(
            self._number,
            self._waited / self._seen,
            session.steps - self._steps,
            usual_s,
            phase,
            line,
            self._ready / max(1, self._seen - self._waited),
            crowding(),
        )
        self._begin(session.steps)
        if state.store is None or not state.store.alive():
            return
        if state.rank() == 0:
            self._compare(mine)
        else:
            session.tell_peers(TOPIC, json.dumps(asdict(mine)))
            told = session.exchange.get(f"keepstep/{session.who.attempt}/{VERDICT}/r0") if session.exchange else None
            if told is not None and (verdict := json.loads(told))["rank"] == state.rank():
                self._tell(mine, float(verdict["others"]))

    def _compare(self, mine: Round) -> None:
        """Rank 0 names a rank that was the slow one twice in a row."""
        rounds = {0: mine}
        for rank, text in self._session.heard(TOPIC).items():
            found: dict[str, Any] = json.loads(text)
            rounds[rank] = Round(**found)
        late = late_rank(rounds, self._state.world)
        if late is not None and late == self._suspect:
            others = min(each.share for rank, each in rounds.items() if rank != late)
            if late == 0:
                self._tell(mine, others)
            else:
                self._session.tell_peers(VERDICT, json.dumps({"rank": late, "others": others}))
        self._suspect = late

    def _tell(self, mine: Round, others: float) -> None:
        if self._told:
            return
        self._told = True
        seconds, usual = (1 - mine.share) * mine.step_s, (1 - others) * mine.step_s
        fields = {"phase": Phase(mine.phase).name.lower(), "seconds": round(seconds, 4), "usual_s": round(usual, 4)}
        fields |= {"against": "peers", "steps": mine.steps, "step_s": round(mine.step_s, 4)}
        where = f", most often at {mine.line}" if mine.line else ""
        words = f"keeps the others waiting: they wait {others:.0%} of the time, it {mine.share:.0%}{where}"
        self._session.note("RankLate", fields, words)
        self._session.say(words)
