# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring: a pause that is not a hang."""

from __future__ import annotations

from keepstep.guard.adapters.tensorflow.tensorflow_state import State, first, in_phase, replace
from keepstep.signals.blackbox import Phase

CHECKPOINT = int(Phase.CHECKPOINT)


def attach(state: State) -> None:
    session, saving = state.session, in_phase(state.session, CHECKPOINT)
    module = first("checkpoint.checkpoint", "training.tracking.util")
    owner = getattr(module, "Checkpoint", None)
    for name in ("save", "write", "read", "restore"):
        replace(session, "checkpoints", owner, name, saving)
    replace(session, "saved models", first("saved_model.save"), "save_and_return_nodes", saving)
    replace(session, "saved models", first("saved_model.load"), "load_partial", saving)
