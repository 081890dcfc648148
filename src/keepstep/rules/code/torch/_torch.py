# SPDX-License-Identifier: Apache-2.0
"""What the rules about PyTorch programs ask."""

from __future__ import annotations

from typing import Any

from keepstep.rules.api import CodeCall, Evidence
from keepstep.rules.code._asking import Call, ProjectFacts

DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
FULLY_SHARD = "torch.distributed.fsdp.fully_shard"
INIT = "torch.distributed.init_process_group"
LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.DistributedSampler"
TRAINERS = ("accelerate", "lightning", "pytorch_lightning", "deepspeed", "composer", "ignite", "ray", "horovod")
"""Libraries that shard data, choose devices and save by themselves."""


def wraps_with_ddp(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether the program that a line belongs to wraps a model with DDP, and no trainer does the rest for it."""
    return bool(known.among(place, DDP)) and not known.any_imports(place, *TRAINERS)


def runs_several_processes(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether a file that uses this one, or this one itself, forms a process group, and no trainer does the rest."""
    return bool(known.users(place) & known.files_that_lead_to(INIT)) and not known.any_imports(place, *TRAINERS)


def binds_a_device(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether each process of the program gets a device of its own."""
    if known.among(place, "torch.cuda.set_device", "torch.cuda.device", "torch.accelerator.set_device_index"):
        return True
    related = known.related(place)
    return any(each.origin.source in related for each in known.assigned_to("CUDA_VISIBLE_DEVICES"))


def uses_cuda(known: ProjectFacts, place: Evidence[Any]) -> bool:
    """Whether the program trains on GPUs."""
    return any(backend_of(each) == "nccl" for each in known.among(place, INIT)) or bool(
        known.among(place, "torch.cuda.set_device")
    )


def backend_of(init: Call, known: ProjectFacts | None = None) -> str:
    """The backend that a process group is made with, or that an option names by default; empty: unknown."""
    given = init.fact.argument("backend", 0)
    literal = given.literal if given is not None else None
    if given is not None and literal is None and known is not None:
        literal = known.default_of(init, given)
    return literal.strip("'\"").lower() if literal else ""


def is_without_gradients(call: Evidence[CodeCall], known: ProjectFacts) -> bool:
    """Whether a call stands under ``no_grad``, as a block or as a decorator of its function."""
    if any("no_grad" in each.text or "inference_mode" in each.text for each in call.fact.within):
        return True
    function = known.functions.get(call.fact.function)
    return function is not None and any(
        "no_grad" in each or "inference_mode" in each for each in function.fact.decorators
    )
