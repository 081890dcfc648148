# SPDX-License-Identifier: Apache-2.0
"""Ranks that formed a world but never exchange a gradient: DDP was forgotten, or the bare model is trained instead.

According to torch's flight recorder, a rank exchanges if its model is wrapped, or if it sends at least half as many
numbers as it trains, even once in a hundred steps; ranks that send to each other (pipelines, experts) always do.
Reported after 80 steps. Gradient accumulation counts as one step. Ranks that average their weights less often (local
SGD) are looked at again and again, and the report is taken back.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from keepstep.guard.adapters.torch.collectives import recorder
from keepstep.guard.adapters.torch.torch_state import rpc_workers

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch.torch_state import TorchState

TOPIC = "exchanges nothing"
AT, UNTIL = 80, 5000
"""The step of the first look, and the step until which to wait for the others."""
AGAIN = 1.25
"""Look again after this many times as many steps."""
OTHER_WAYS = ("horovod", "bagua", "byteps", "mpi4py", "cupy", "ray.util.collective")
"""Packages that may exchange gradients without torch.distributed."""


class Alone:
    """Asked by the guard's thread at every look; takes nanoseconds until that step."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self._over = False
        self._asked = False
        self._together = False
        """They exchange, or it is not known."""
        self._told_at = 0
        """The step of the report or of the last look since; 0: not reported, or taken back."""
        state.session.at_close.append(self.leave)

    def look(self) -> None:
        state, session = self._state, self._session
        if self._told_at and session.steps > self._told_at * AGAIN:
            self._told_at = session.steps
            self._take_back()
        if self._over or session.steps < AT or state.store is None or not state.store.alive():
            return
        if not self._asked:
            self._asked = True
            if not recorder.is_kept(state) or self._exchanges() is not False:
                self._over = self._together = True
                return
            session.tell_peers(TOPIC, json.dumps({"steps": session.steps}))
        if state.rank() != 0 or session.steps > UNTIL:
            self._over = True
        elif len(session.heard(TOPIC)) == state.world - 1:
            self._over = True
            if self._exchanges() is False:
                self._tell()

    def before_end(self) -> None:
        """The world ends. If steps were too short to ask earlier, each rank reports what it knows about itself."""
        if self._together or self._told_at or self._session.steps < AT:
            return
        if recorder.is_kept(self._state) and self._exchanges() is False:
            self._tell(own=True)

    def leave(self) -> None:
        if self._told_at:
            self._take_back()

    def _take_back(self) -> None:
        """See whether later exchanges change the result."""
        if self._exchanges():
            self._told_at = 0
            session = self._session
            words = f"the ranks have exchanged their parameters by step {session.steps}: they do train together"
            session.note(
                "NeverExchanged",
                {"framework": "torch", "world": self._state.world, "steps": session.steps, "over": True},
                words,
            )
            session.say(words)

    def _exchanges(self) -> bool | None:
        """None: it is not known."""
        state = self._state
        if state.wrapped or any(name in sys.modules for name in OTHER_WAYS) or rpc_workers():
            return True
        sent = recorder.sent(state)
        return sent >= state.parameters / 2 if sent is not None and state.parameters else None

    def _tell(self, *, own: bool = False) -> None:
        state, session = self._state, self._session
        self._told_at = session.steps
        sent = recorder.sent(state) or 0
        fields = {
            "framework": "torch",
            "world": state.world,
            "steps": session.steps,
            "parameters": state.parameters,
            "exchanged": sent,
            "own": own,
        }
        words = (
            f"in {session.steps} steps the {state.world} ranks exchanged {sent} numbers, "
            f"and each trains {state.parameters} parameters"
        )
        session.note("NeverExchanged", fields, words)
        if state.rank() != 0:
            return
        session.say(
            f"{words}: no gradient was averaged, so far every rank trains a model of its own; "
            "wrap the model in DistributedDataParallel"
        )
