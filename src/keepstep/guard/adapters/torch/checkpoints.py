# SPDX-License-Identifier: Apache-2.0
"""Saving and loading: pauses that are not hangs."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

from keepstep.guard.adapters.torch.torch_state import TorchState, replace
from keepstep.guard.record.named_pauses import in_phase
from keepstep.signals.blackbox import BoxPhase

FUNCTIONS = {
    "torch.serialization": ("save", "load"),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "torch.distributed.checkpoint.state_dict_loader": ("load",),
}


def hook(state: TorchState, module: ModuleType) -> None:
    saving = in_phase(state.session, int(BoxPhase.CHECKPOINT), lambda: threading.get_ident() == state.thread)
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    for name in FUNCTIONS[module.__name__]:
        if hasattr(module, name):
            replace([module, package], name, saving(getattr(module, name)))
        else:
            state.session.uncovered(f"{module.__name__}.{name}", "this torch has none")
