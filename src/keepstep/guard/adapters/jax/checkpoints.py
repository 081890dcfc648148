# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a JAX training: orbax and flax save them, where the training imports one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keepstep.guard.import_hook import after_import
from keepstep.guard.record.named_pauses import in_phase
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.protocols import MarksPhases

PART = "JAX's checkpoints"
ORBAX = {
    "CheckpointManager": ("save", "restore", "wait_until_finished"),
    "Checkpointer": ("save", "restore"),
    "AsyncCheckpointer": ("save", "restore", "wait_until_finished"),
    "PyTreeCheckpointer": ("save", "restore"),
    "StandardCheckpointer": ("save", "restore", "wait_until_finished"),
}
FLAX = ("save_checkpoint", "save_checkpoint_multiprocess", "restore_checkpoint")


def watch(session: MarksPhases) -> None:
    """Wait for the libraries; nothing is imported here."""
    saving = in_phase(session, int(BoxPhase.CHECKPOINT))

    def watch_orbax(module: Any) -> None:
        with session.part(PART):
            for name, methods in ORBAX.items():
                kind = getattr(module, name, None)
                for method in methods:
                    if kind is not None and method in vars(kind) and callable(vars(kind)[method]):
                        setattr(kind, method, saving(vars(kind)[method]))

    def watch_flax(module: Any) -> None:
        with session.part(PART):
            for name in FLAX:
                if callable(getattr(module, name, None)):
                    setattr(module, name, saving(getattr(module, name)))

    after_import({"orbax.checkpoint": watch_orbax, "flax.training.checkpoints": watch_flax})
