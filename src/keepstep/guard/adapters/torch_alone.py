# SPDX-License-Identifier: Apache-2.0
"""Ranks that formed a world and train, and never exchange a gradient: DDP was forgotten, or the bare model is trained beside it.

By torch's flight recorder: whatever is wrapped, or sends at least half as many numbers as it trains, be it once in a hundred steps, exchanges.
Told after 80 steps. Gradient accumulation counts as one step; local SGD that begins with a broadcast, as it must, has exchanged.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from keepstep.guard.adapters import torch_recorder

if TYPE_CHECKING:
    from keepstep.guard.adapters.torch_state import Torch

TOPIC = "exchanges nothing"
AT, UNTIL = 80, 5000
"""The step at which it is looked at, and the one up to which the others are waited for."""
OTHER_WAYS = ("horovod", "bagua", "byteps", "mpi4py", "cupy", "ray.util.collective")
"""Packages by which gradients may go beside torch.distributed."""


class Alone:
    """Asked by the guard's thread at every look, for a few nanoseconds until the step has come."""

    def __init__(self, state: Torch) -> None:
        self._state, self._session = state, state.session
        self._over = False
        self._asked = False
        self._told = False
        state.session.at_close.append(self.leave)

    def look(self) -> None:
        state, session = self._state, self._session
        if self._over or session.steps < AT or state.store is None or not state.store.alive():
            return
        if not self._asked:
            self._asked = True
            if not self._exchanges_nothing():
                self._over = True
                return
            session.tell_peers(TOPIC, json.dumps({"steps": session.steps}))
        if state.rank() != 0 or session.steps > UNTIL:
            self._over = True
        elif len(session.heard(TOPIC)) == state.world - 1:
            self._over = True
            if self._exchanges_nothing():
                self._tell()

    def leave(self) -> None:
        """What was exchanged since takes it back."""
        if self._told and not self._exchanges_nothing():
            fields = {"framework": "torch", "world": self._state.world, "steps": self._session.steps, "over": True}
            self._session.note("NeverExchanged", fields, "the ranks exchanged their parameters later on")

    def _exchanges_nothing(self) -> bool:
        state = self._state
        if state.wrapped or not state.parameters or any(name in sys.modules for name in OTHER_WAYS) or self._by_calls():
            return False
        sent = torch_recorder.sent(state)
        return sent is not None and sent < state.parameters / 2

    def _by_calls(self) -> bool:
        """Whether ranks call each other's functions (torch's RPC)."""
        rpc = sys.modules.get("torch.distributed.rpc")
        is_set = getattr(rpc, "_is_current_rpc_agent_set", None)
        return is_set is not None and bool(is_set())

    def _tell(self) -> None:
        state, session = self._state, self._session
        self._told = True
        sent = torch_recorder.sent(state) or 0
        fields = {"framework": "torch", "world": state.world, "steps": session.steps, "parameters": state.parameters, "exchanged": sent}
        words = f"in {session.steps} steps the {state.world} ranks exchanged {sent} numbers, and each trains {state.parameters} parameters"
        session.note("NeverExchanged", fields, words)
        session.say(f"{words}: no gradient was averaged, every rank trains a model of its own; wrap the model in DistributedDataParallel")
