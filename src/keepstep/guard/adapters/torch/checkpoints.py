# SPDX-License-Identifier: Apache-2.0
"""Saving and loading: pauses that are not hangs."""

from __future__ import annotations

import functools
import sys
import threading
from types import ModuleType
from typing import Any

from keepstep.guard.adapters.torch.torch_state import Torch, replace
from keepstep.signals.blackbox import Phase

_CHECKPOINT = int(Phase.CHECKPOINT)
FUNCTIONS = {
    "torch.serialization": ("save", "load"),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "torch.distributed.checkpoint.state_dict_loader": ("load",),
}


def hook(state: Torch, module: ModuleType) -> None:
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    for name in FUNCTIONS[module.__name__]:
        if hasattr(module, name):
            replace([module, package], name, _during(state, getattr(module, name)))
        else:
            state.session.uncovered(f"{module.__name__}.{name}", "this torch has none")


def _during(state: Torch, original: Any) -> Any:
    session, thread = state.session, threading.get_ident

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if thread() != state.thread:  # not the training's thread
            return original(*args, **kwargs)
        before = session.phase(_CHECKPOINT)
        try:
            return original(*args, **kwargs)
        finally:
            session.phase(before)

    return call
