# SPDX-License-Identifier: Apache-2.0
"""PyTorch: optimizers, loaders, models, worlds, collectives and compilation, each hooked by a file of its own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters import (
    torch_collectives,
    torch_compiling,
    torch_losses,
    torch_models,
    torch_saving,
    torch_steps,
    torch_watch,
    torch_world,
)
from keepstep.guard.adapters.torch_state import Torch
from keepstep.guard.importing import after_import

if TYPE_CHECKING:
    from keepstep.guard.session import Session

Part = Callable[[Torch, ModuleType], None]

PARTS: tuple[tuple[str, str, Part], ...] = (
    ("torch.optim.optimizer", "optimizer steps", torch_steps.hook_optimizers),
    ("torch.autograd", "losses", torch_losses.hook),
    ("torch.utils.data.dataloader", "loaders", torch_steps.hook_loaders),
    ("torch.distributed.distributed_c10d", "torch world", torch_world.hook),
    ("torch.distributed.distributed_c10d", "collectives", torch_collectives.hook),
    ("torch.nn.parallel.distributed", "DDP models", torch_models.hook_ddp),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FSDP models", torch_models.hook_fsdp),
    ("torch.distributed.fsdp._fully_shard._fsdp_state", "fully_shard models", torch_models.hook_fully_shard),
    ("torch.distributed._composable.fsdp._fsdp_state", "fully_shard models", torch_models.hook_fully_shard),
    ("torch.serialization", "checkpoints", torch_saving.hook),
    ("torch.distributed.checkpoint.state_dict_saver", "sharded checkpoints", torch_saving.hook),
    ("torch.distributed.checkpoint.state_dict_loader", "sharded checkpoints", torch_saving.hook),
    ("torch._dynamo.callback", "compilation", torch_compiling.hook),
)
"""The module whose import begins it, the name of the part, and what hooks it."""


def attach(session: Session, module: ModuleType) -> None:
    """Hook everything that is imported, and the rest as soon as it is."""
    state = Torch(session, module)
    session.values = state.values
    calls: dict[str, list[tuple[str, Part]]] = {}
    for name, part, hook in PARTS:
        calls.setdefault(name, []).append((part, hook))
    after_import({name: functools.partial(_hook, state, parts) for name, parts in calls.items()})
    if not hasattr(module, "distributed") or not module.distributed.is_available():
        session.uncovered("torch world", "this torch is built without torch.distributed")
    else:
        _late_joiner(state)


def _hook(state: Torch, parts: list[tuple[str, Part]], module: ModuleType) -> None:
    for part, hook in parts:
        with state.session.part(part):
            hook(state, module)


def _late_joiner(state: Torch) -> None:
    """`keepstep.guard()` after the process group was made: the world is there already."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None and c10d.is_initialized():
        with state.session.part("torch world"):
            torch_world.formed(state)
            torch_watch.begin(state)
