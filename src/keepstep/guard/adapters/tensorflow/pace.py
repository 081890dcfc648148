# SPDX-License-Identifier: Apache-2.0
"""Who keeps the others waiting: the rank that is hardly ever inside the programs that all ranks run together.

In synchronous training all ranks' steps take equally long. What differs is how much of that time a rank is in a
shared program, where it waits for the others, and how much it spends on its own before: on its batch, in the script.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from keepstep.guard.adapters.tensorflow.tensorflow_state import State
from keepstep.guard.record.named_pauses import STEPPING
from keepstep.guard.record.processor_wait import crowding, is_ready
from keepstep.signals.blackbox import Phase
from keepstep.signals.pace import CROWDED, EXPLAINS

TOPIC, VERDICT = "pace", "late"
ROUND_S = 2.5
ROUNDS = 3
"""This many rounds in a row after the first: one or two pauses to save do not make a rank slow."""
FEWEST_STEPS = 3
WAITS = 0.6
"""The others are in shared programs for at least this share of the time."""
TIMES = 4.0
"""The late rank spends this many times as long on its own as the others."""
LEAST_S = 0.01


class Pace:
    """One rank's part; rank 0 compares. Called by the guard's thread."""

    def __init__(self) -> None:
        self._began = self._inside = 0.0
        self._steps = 0
        self._phases: Counter[int] = Counter()
        self._ready = self._alone = 0
        """Looks outside shared programs at which it ran or waited for a processor."""
        self._suspect: int | None = None
        self._rounds = 0
        self.told = False

    def turn(self, state: State) -> None:
        now, session = time.monotonic(), state.session
        if not state.shares.steps or session.phase_now not in STEPPING:
            self._begin(state, now)
            return
        if not state.entered_at:
            self._phases[session.phase_now] += 1
            self._ready += is_ready(session.trainer)
            self._alone += 1
        passed, steps = now - self._began, state.shares.steps - self._steps
        if passed < ROUND_S or steps < FEWEST_STEPS:
            return
        own = {"own": self._own_s(state, now) / steps, "step": passed / steps, "steps": steps}
        own |= {"ready": self._ready / max(1, self._alone), "crowding": crowding()}
        session.tell_peers(TOPIC, json.dumps(own))
        if session.who.rank == 0:
            self._compare(state, own)
        else:
            self._hear(state)
        self._begin(state, now)

    def _begin(self, state: State, now: float) -> None:
        self._began, self._steps = now, state.shares.steps
        self._ready = self._alone = 0
        self._inside = state.inside_s + (now - state.entered_at if state.entered_at else 0.0)

    def _own_s(self, state: State, now: float) -> float:
        inside = state.inside_s + (now - state.entered_at if state.entered_at else 0.0) - self._inside
        return max(now - self._began - inside, 0.0)

    def _compare(self, state: State, own: dict[str, float]) -> None:
        told: dict[int, Any] = {0: own} | {rank: json.loads(text) for rank, text in state.session.heard(TOPIC).items()}
        late = late_rank(told, state.world)
        self._rounds = self._rounds + 1 if late is not None and late == self._suspect else 0
        if late is not None and self._rounds >= ROUNDS:
            others = max(each["own"] for rank, each in told.items() if rank != late)
            verdict = {"rank": late, **told[late], "others": others}
            state.session.tell_peers(VERDICT, json.dumps(verdict))
            if late == 0:
                self._tell(state, verdict)
        self._suspect = late

    def _hear(self, state: State) -> None:
        exchange = state.session.exchange
        if self.told or exchange is None:
            return
        text = exchange.get(f"keepstep/{state.session.who.attempt}/{VERDICT}/r0")
        verdict = json.loads(text) if text else {}
        if verdict.get("rank") == state.session.who.rank:
            self._tell(state, verdict)

    def _tell(self, state: State, verdict: dict[str, Any]) -> None:
        if self.told:
            return
        self.told = True
        phase = Phase(self._phases.most_common(1)[0][0] if self._phases else int(Phase.COMPUTE)).name.lower()
        own, others, steps = round(verdict["own"], 4), round(verdict["others"], 4), int(verdict["steps"])
        fields = {"phase": phase, "seconds": own, "usual_s": others, "against": "peers", "steps": steps}
        words = f"keeps the others waiting: {own:.3f} s of each step on its own, the others {others:.3f} s"
        state.session.note("RankLate", fields, words)
        state.session.say(words)


def late_rank(told: dict[int, Any], world: int) -> int | None:
    """The one rank for which all others wait; None: there is none, or not all ranks have reported."""
    if len(told) < world or world < 2:
        return None
    late = max(told, key=lambda rank: told[rank]["own"])
    others = [each for rank, each in told.items() if rank != late]
    waits = all(each["own"] <= (1 - WAITS) * each["step"] for each in others)
    longest = max(each["own"] for each in others)
    if told[late].get("crowding", 0.0) >= CROWDED and told[late].get("ready", 0.0) >= EXPLAINS:
        return None  # it only lacks processor time, like every rank on its host
    return (
        late if waits and told[late]["own"] > max(TIMES * longest, LEAST_S, (1 - WAITS) * told[late]["step"]) else None
    )
