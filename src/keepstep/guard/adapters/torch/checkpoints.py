# SPDX-License-Identifier: Apache-2.0
"""Saving and loading: pauses that are not hangs, recorded in the ledger, and looked at before they are loaded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from keepstep.guard.adapters.torch.torch_state import TorchState, replace
from keepstep.guard.import_hook import after_import
from keepstep.guard.record.named_pauses import in_phase
from keepstep.signals.blackbox import BoxPhase

FUNCTIONS = {
    "torch.serialization": ("save", "load"),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "torch.distributed.checkpoint.state_dict_loader": ("load",),
}
LIGHTNING = ("lightning.fabric.utilities.cloud_io", "lightning_fabric.utilities.cloud_io")
PART = "Lightning's checkpoints"


def hook(state: TorchState, module: ModuleType) -> None:
    in_ledger = _plain(state) if module.__name__ == "torch.serialization" else _sharded(state)
    saving = in_phase(state.session, int(BoxPhase.CHECKPOINT), lambda: threading.get_ident() == state.thread)
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    for name in FUNCTIONS[module.__name__]:
        if hasattr(module, name):
            replace([module, package], name, saving(in_ledger[name](getattr(module, name))))
        else:
            state.session.uncovered(f"{module.__name__}.{name}", "this torch has none")


def watch_lightning(state: TorchState) -> None:
    """It saves into memory first, so the file is named in its own function."""
    ledger = state.session.ledger

    def watch(module: Any) -> None:
        with state.session.part(PART):
            saves = ledger.saves("lightning", lambda: _writer(state), lambda checkpoint, filepath: filepath)
            module._atomic_save = saves(module._atomic_save)
            module._load = ledger.loads(lambda path_or_url, *args, **kwargs: path_or_url)(module._load)

    after_import(dict.fromkeys(LIGHTNING, watch))


def _plain(state: TorchState) -> dict[str, Callable[[Any], Any]]:
    ledger = state.session.ledger
    return {
        "save": ledger.saves("torch", lambda: _writer(state), lambda obj, f, *args, **kwargs: _not_a_shard(f)),
        "load": ledger.loads(lambda f, *args, **kwargs: _not_a_shard(f)),
    }


def _not_a_shard(f: Any) -> Any:
    """The parts of a sharded checkpoint are recorded together: each is written and read in many pieces."""
    return None if str(getattr(f, "name", f)).endswith(".distcp") else f


def _sharded(state: TorchState) -> dict[str, Callable[[Any], Any]]:
    ledger = state.session.ledger

    def mine(name: str) -> bool:
        rank = state.session.who.rank or 0
        return name.startswith(f"__{rank}_") or (name == ".metadata" and rank == 0)

    def by_all(*args: Any, process_group: Any = None, no_dist: bool = False, **kwargs: Any) -> bool:
        return process_group is None and not no_dist and state.world > 1

    def is_done(result: Any) -> Callable[[], bool]:
        future = getattr(result, "upload_completion", result)
        return future.done if hasattr(future, "done") else lambda: True

    saves = ledger.saves("torch sharded", lambda: _writer(state), _folder, together=by_all, mine=mine, is_done=is_done)
    return {"save": saves, "async_save": saves, "load": ledger.loads(_folder, together=by_all)}


def _folder(*args: Any, checkpoint_id: Any = None, **kwargs: Any) -> Any:
    storage = kwargs.get("storage_writer") or kwargs.get("storage_reader")
    return checkpoint_id or getattr(storage, "path", None)


def _writer(state: TorchState) -> str:
    return f"torch {state.torch.__version__}"
