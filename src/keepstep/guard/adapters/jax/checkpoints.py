# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a JAX training: orbax and flax save them, where the training imports one of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.import_hook import after_import
from keepstep.guard.record.named_pauses import in_phase
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.protocols import SavesInJax

PART = "JAX's checkpoints"
MANAGER = "CheckpointManager"
ORBAX = {
    MANAGER: ("save", "restore", "wait_until_finished"),
    "Checkpointer": ("save", "restore"),
    "AsyncCheckpointer": ("save", "restore", "wait_until_finished"),
    "PyTreeCheckpointer": ("save", "restore"),
    "StandardCheckpointer": ("save", "restore", "wait_until_finished"),
}
FLAX = ("save_checkpoint", "save_checkpoint_multiprocess", "restore_checkpoint")
PROCESS = re.compile(r"(?:^|/)ocdbt\.process_(\d+)/")


def watch(session: SavesInJax) -> None:
    """Wait for the libraries; nothing is imported here."""
    saving = in_phase(session, int(BoxPhase.CHECKPOINT))

    def watch_orbax(module: Any) -> None:
        with session.part(PART):
            saves, loads = _in_ledger(session)
            for name, methods in ORBAX.items():
                kind = getattr(module, name, None)
                where = _step_folder if name == MANAGER else _folder
                recorded = {"save": saves(where), "restore": loads(where)}
                for method in methods:
                    if kind is not None and method in vars(kind) and callable(vars(kind)[method]):
                        original = vars(kind)[method]
                        setattr(kind, method, saving(recorded[method](original) if method in recorded else original))

    def watch_flax(module: Any) -> None:
        with session.part(PART):
            for name in FLAX:
                if callable(getattr(module, name, None)):
                    setattr(module, name, saving(getattr(module, name)))

    after_import({"orbax.checkpoint": watch_orbax, "flax.training.checkpoints": watch_flax})


def _in_ledger(session: SavesInJax) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def writer() -> str:
        return f"orbax {getattr(sys.modules.get('orbax.checkpoint'), '__version__', 'of unknown version')}"

    def mine(name: str) -> bool:
        """Each process writes a folder of its own; the rest is the first one's."""
        found = PROCESS.search(name)
        return (int(found[1]) if found is not None else 0) == (session.who.rank or 0)

    def by_all(*args: Any, **kwargs: Any) -> bool:
        return (session.who.world or 1) > 1

    def saves(where: Any) -> Any:
        return session.ledger.saves("orbax", writer, where, together=by_all, mine=mine)

    def loads(where: Any) -> Any:
        return session.ledger.loads(where, together=by_all)

    return saves, loads


def _folder(checkpointer: Any, directory: Any, *args: Any, **kwargs: Any) -> Any:
    return directory


def _step_folder(manager: Any, step: Any = None, *args: Any, **kwargs: Any) -> Any:
    number = manager.latest_step() if step is None else step
    return manager.directory / str(number)
