# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring: a pause that is not a hang."""

from __future__ import annotations

from keepstep.core.blackbox import Phase
from keepstep.guard.adapters.tensorflow.state import State, during, first

CHECKPOINT = int(Phase.CHECKPOINT)


def attach(state: State) -> None:
    module = first("checkpoint.checkpoint", "training.tracking.util")
    owner = getattr(module, "Checkpoint", None)
    for name in ("save", "write", "read", "restore"):
        during(state, owner, name, CHECKPOINT, "checkpoints")
    during(state, first("saved_model.save"), "save_and_return_nodes", CHECKPOINT, "saved models")
    during(state, first("saved_model.load"), "load_partial", CHECKPOINT, "saved models")
