# SPDX-License-Identifier: Apache-2.0
"""How often this rank's training thread sleeps in a collective: samples of it.

The rank that hardly ever waits, while all others do most of the time, is the slow one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keepstep.base.proc_stat import read_stat
from keepstep.guard.adapters.torch.compare_collectives import WAITS as WAITING
from keepstep.guard.pace import Rounds, Told, merely_lacks_processors
from keepstep.guard.record.named_pauses import STEPPING
from keepstep.guard.record.processor_wait import crowding, is_ready

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

SAMPLES = 20
"""Samples per round: about four seconds."""
FEWEST_STEPS = 5
WAITS, HARDLY = 0.6, 0.1
MOST_RANKS = 256


def late_rank(told: Mapping[int, Told], world: int) -> int | None:
    """The one rank for which all others wait; None: there is none, reports are missing, or its host is just crowded."""
    if len(told) < world or world < 2:
        return None
    least = min(told, key=lambda rank: told[rank]["share"])
    waits = all(each["share"] >= WAITS for rank, each in told.items() if rank != least)
    if told[least]["share"] > HARDLY or not waits or min(each["steps"] for each in told.values()) < FEWEST_STEPS:
        return None
    return None if merely_lacks_processors(told[least]) else least


class TorchPace(Rounds):
    """Rounds by samples. Called by the watch, at every look."""

    in_a_row = 1

    def __init__(self, state: TorchState) -> None:
        super().__init__(state.session)
        self._state = state
        self._begin(0)

    def _begin(self, steps: int) -> None:
        self._seen = self._waited = self._ready = 0
        self._places: Counter[tuple[int, str]] = Counter()
        self._steps = steps

    def sample(self, doing: str, line: str, usual_s: float) -> None:
        """One look at this rank."""
        session = self._state.session
        phase = session.phase_now
        if phase not in STEPPING or not session.steps or self._state.world > MOST_RANKS:
            return
        self._seen += 1
        if doing in WAITING and self._sleeps():
            self._waited += 1
        else:
            self._places[phase, line] += 1
            self._ready += is_ready(self._state.native_thread)
        if self._seen < SAMPLES:
            return
        phase, line = max(self._places, key=self._places.__getitem__) if self._places else (STEPPING[0], "")
        own: dict[str, Any] = {
            "share": self._waited / self._seen,
            "steps": session.steps - self._steps,
            "step_s": usual_s,
        }
        own |= {"phase": phase, "line": line, "crowding": crowding()}
        own |= {"ready": self._ready / max(1, self._seen - self._waited)}
        self._begin(session.steps)
        if self._state.store is not None and self._state.store.alive():
            self.end_round(own, self._state.world)

    def _sleeps(self) -> bool:
        """Whether the training's thread sleeps right now, according to the kernel."""
        number = self._state.native_thread
        seen = read_stat(thread=number) if number else None
        return seen is not None and seen.state == "S"

    def late_rank(self, told: Mapping[int, Told], world: int) -> int | None:
        return late_rank(told, world)

    def words(self, late: Told, others: list[Told]) -> tuple[dict[str, Any], str]:
        share, step_s, theirs = late["share"], late["step_s"], min(each["share"] for each in others)
        where = f", most often at {late['line']}" if late["line"] else ""
        fields = {"seconds": round((1 - share) * step_s, 4), "usual_s": round((1 - theirs) * step_s, 4)}
        words = f"they wait {theirs:.0%} of the time, it {share:.0%}{where}"
        return fields | {"step_s": round(step_s, 4)}, words
