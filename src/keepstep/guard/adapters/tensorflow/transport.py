# SPDX-License-Identifier: Apache-2.0
"""Ring in place of NCCL in the communication options, where the supervisor asks for it (`--remedy all`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keepstep.guard.adapters.tensorflow.tensorflow_state import State, first, replace
from keepstep.guard.transport import collectives


def attach(state: State) -> None:
    options = first("distribute.collective_util")
    kinds = getattr(options, "CommunicationImplementation", None)
    owner = getattr(options, "Options", None)
    replace(state.session, "communication options", owner, "__init__", lambda original: _made(kinds, original))


def _made(kinds: Any, original: Any) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if collectives() == "ring":
            self.implementation = kinds.RING

    return init
