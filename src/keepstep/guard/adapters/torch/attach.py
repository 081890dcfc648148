# SPDX-License-Identifier: Apache-2.0
"""PyTorch: optimizers, loaders, models, worlds, collectives and compilation, one file each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters import safetensors_files
from keepstep.guard.adapters.torch import checkpoints, compiling, models, steps, trainer_folders, world
from keepstep.guard.adapters.torch.collectives import script_calls
from keepstep.guard.adapters.torch.loaders import Loaders
from keepstep.guard.adapters.torch.numbers import buddy, losses
from keepstep.guard.adapters.torch.numbers.fingerprints import Replicas
from keepstep.guard.adapters.torch.numbers.own_past import OwnPast
from keepstep.guard.adapters.torch.torch_state import TorchState
from keepstep.guard.import_hook import after_import
from keepstep.guard.record.device_memory import DeviceMemory

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

Part = Callable[[TorchState, ModuleType], None]

PARTS: tuple[tuple[str, str, Part], ...] = (
    ("torch.optim.optimizer", "optimizer steps", steps.hook_optimizers),
    ("torch.autograd", "losses", losses.hook),
    ("torch.utils.data.dataloader", "loaders", steps.hook_loaders),
    ("torch.distributed.distributed_c10d", "torch world", world.hook),
    ("torch.distributed.distributed_c10d", "collectives", script_calls.hook),
    ("torch.nn.parallel.distributed", "DDP models", models.hook_ddp),
    ("torch.nn.parallel.distributed", buddy.PART, buddy.hook),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FSDP models", models.hook_fsdp),
    ("torch.distributed.fsdp._fully_shard._fsdp_state", "fully_shard models", models.hook_fully_shard),
    ("torch.distributed._composable.fsdp._fsdp_state", "fully_shard models", models.hook_fully_shard),
    ("torch.distributed.device_mesh", "device meshes", models.hook_meshes),
    ("torch.serialization", "checkpoints", checkpoints.hook),
    ("torch.distributed.checkpoint.state_dict_saver", "sharded checkpoints", checkpoints.hook),
    ("torch.distributed.checkpoint.state_dict_loader", "sharded checkpoints", checkpoints.hook),
    ("torch._dynamo.callback", "compilation", compiling.hook),
)
"""The module to wait for, the name of the part, and what hooks it."""


def attach(session: Adapts, module: ModuleType) -> None:
    """Hook everything that is imported, and the rest as soon as it is."""
    state = TorchState(session, module)
    state.loaders = Loaders(state)
    state.replicas = Replicas(state)
    state.own_past = OwnPast(state)
    session.values = state.values
    session.data_parallel.append(state.is_data_parallel)
    DeviceMemory(session, functools.partial(_device_memory, module)).watch()
    calls: dict[str, list[tuple[str, Part]]] = {}
    for name, part, hook in PARTS:
        calls.setdefault(name, []).append((part, hook))
    after_import({name: functools.partial(_hook, state, parts) for name, parts in calls.items()})
    checkpoints.watch_lightning(state)
    trainer_folders.watch(state)
    safetensors_files.watch(session)
    if not hasattr(module, "distributed") or not module.distributed.is_available():
        session.uncovered("torch world", "this torch is built without torch.distributed")
    else:
        state.find_world()  # `keepstep.guard.attach()` may be called after the world was formed


def _hook(state: TorchState, parts: list[tuple[str, Part]], module: ModuleType) -> None:
    for part, hook in parts:
        with state.session.part(part):
            hook(state, module)


def _device_memory(torch: Any) -> tuple[int, int | None, int] | None:
    """Of the GPU that this process uses most: numbers that the allocator keeps, no question to the device."""
    cuda: Any = torch.cuda
    if not cuda.is_initialized():
        return None
    found = []
    for number in range(cuda.device_count()):
        stats = cuda.memory_stats(number)
        share = getattr(cuda, "get_per_process_memory_fraction", lambda _: 1.0)(number)
        limit = int(cuda.get_device_properties(number).total_memory * share)
        found.append((stats.get("allocated_bytes.all.peak", 0), stats.get("reserved_bytes.all.peak", 0), limit))
    return max(found, default=None)
