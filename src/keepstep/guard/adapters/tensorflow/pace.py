# SPDX-License-Identifier: Apache-2.0
"""How much of each step a rank spends on its own, outside the programs that all ranks run together.

What differs between ranks is how much of a step a rank is in a shared program, where it waits for the others, and how
much it spends on its own before: on its batch, in the script.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from keepstep.guard.adapters.tensorflow.tensorflow_state import TensorFlowState
from keepstep.guard.pace import Rounds, Told, merely_lacks_processors
from keepstep.guard.record.named_pauses import STEPPING
from keepstep.guard.record.processor_wait import crowding, is_ready
from keepstep.signals.blackbox import BoxPhase

ROUND_S = 2.5
FEWEST_STEPS = 3
WAITS = 0.6
"""The others are in shared programs for at least this share of the time."""
TIMES = 4.0
"""The late rank spends this many times as long on its own as the others."""
LEAST_S = 0.01


class TensorFlowPace(Rounds):
    """Rounds by time."""

    in_a_row = 3

    def __init__(self, state: TensorFlowState) -> None:
        super().__init__(state.session)
        self._state = state
        self._began = self._inside = 0.0
        self._steps = 0
        self._phases: Counter[int] = Counter()
        self._ready = self._alone = 0
        """Looks outside shared programs at which it ran or waited for a processor."""

    def turn(self) -> None:
        now, state, session = time.monotonic(), self._state, self._state.session
        if not state.shares.steps or session.phase_now not in STEPPING:
            self._begin(now)
            return
        if not state.entered_at:
            self._phases[session.phase_now] += 1
            self._ready += is_ready(session.trainer)
            self._alone += 1
        passed, steps = now - self._began, state.shares.steps - self._steps
        if passed < ROUND_S or steps < FEWEST_STEPS:
            return
        alone_s = max(passed - (self._inside_s(now) - self._inside), 0.0)
        phase = self._phases.most_common(1)[0][0] if self._phases else int(BoxPhase.COMPUTE)
        own = {"own": alone_s / steps, "step": passed / steps, "steps": steps, "phase": phase}
        own |= {"ready": self._ready / max(1, self._alone), "crowding": crowding()}
        self.end_round(own, state.world)
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._began, self._steps = now, self._state.shares.steps
        self._ready = self._alone = 0
        self._inside = self._inside_s(now)

    def _inside_s(self, now: float) -> float:
        return self._state.inside_s + (now - self._state.entered_at if self._state.entered_at else 0.0)

    def late_rank(self, told: Mapping[int, Told], world: int) -> int | None:
        return late_rank(told, world)

    def words(self, late: Told, others: list[Told]) -> tuple[dict[str, Any], str]:
        own, usual = round(late["own"], 4), round(max(each["own"] for each in others), 4)
        words = f"{own:.3f} s of each step on its own, the others {usual:.3f} s"
        return {"seconds": own, "usual_s": usual}, words


def late_rank(told: Mapping[int, Told], world: int) -> int | None:
    """The one rank for which all others wait; None: there is none, or not all ranks have reported."""
    if len(told) < world or world < 2:
        return None
    late = max(told, key=lambda rank: told[rank]["own"])
    others = [each for rank, each in told.items() if rank != late]
    waits = all(each["own"] <= (1 - WAITS) * each["step"] for each in others)
    longest = max(each["own"] for each in others)
    is_late = waits and told[late]["own"] > max(TIMES * longest, LEAST_S, (1 - WAITS) * told[late]["step"])
    return late if is_late and not merely_lacks_processors(told[late]) else None
