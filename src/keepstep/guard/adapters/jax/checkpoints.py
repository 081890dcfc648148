# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a JAX training: orbax and flax save them, where the training imports one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.import_hook import after_import
from keepstep.signals.blackbox import Phase

if TYPE_CHECKING:
    from keepstep.guard.protocols import MarksPhases

PART = "JAX's checkpoints"
_CHECKPOINT = int(Phase.CHECKPOINT)
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
    after_import(
        {
            "orbax.checkpoint": lambda module: _watch_orbax(session, module),
            "flax.training.checkpoints": lambda module: _watch_flax(session, module),
        }
    )


def _watch_orbax(session: MarksPhases, module: Any) -> None:
    with session.part(PART):
        for name, methods in ORBAX.items():
            kind = getattr(module, name, None)
            for method in methods:
                if kind is not None and method in vars(kind) and callable(vars(kind)[method]):
                    setattr(kind, method, _saving(session, vars(kind)[method]))


def _watch_flax(session: MarksPhases, module: Any) -> None:
    with session.part(PART):
        for name in FLAX:
            if callable(getattr(module, name, None)):
                setattr(module, name, _saving(session, getattr(module, name)))


def _saving(session: MarksPhases, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def save(*args: Any, **kwargs: Any) -> Any:
        before = session.phase(_CHECKPOINT)
        try:
            return function(*args, **kwargs)
        finally:
            session.phase(before)

    return save
