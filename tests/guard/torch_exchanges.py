# SPDX-License-Identifier: Apache-2.0
"""Trainings whose ranks exchange in their own ways, with little or no DDP, or never. For test_torch_exchanges.py."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WAY = sys.argv[1]
STEPS = 120


def mlp(wide: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, wide), nn.Tanh(), nn.Linear(wide, 1))


def average(tensors: list[torch.Tensor]) -> None:
    for each in tensors:
        dist.all_reduce(each)
        each /= dist.get_world_size()


def by_hand(every: int, *, weights: bool, frozen: bool = False, pause_s: float = 0.01) -> None:
    """Gradients averaged at every step, or weights now and then (local SGD)."""
    model = mlp()
    if frozen:
        backbone = nn.Linear(8, 4000)
        backbone.requires_grad_(False)
        model = nn.Sequential(backbone, nn.Linear(4000, 8), *model)
        model[1].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if not weights:
            average([each.grad for each in model.parameters() if each.grad is not None])
        optimizer.step()
        if weights and (step + 1) % every == 0:
            average([each.data for each in model.parameters()])
        time.sleep(pause_s)


def averaged_when_asked() -> None:
    """Each rank trains by itself until it is asked to average its weights, and goes on until it is asked to end."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    averaged = False
    while not Path("end").exists():
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        if not averaged and Path("average").exists():
            average([each.data for each in model.parameters()])
            averaged = True
        time.sleep(0.01)


def accumulated() -> None:
    model = DistributedDataParallel(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for micro in range(4):
            with model.no_sync() if micro < 3 else contextlib.nullcontext():
                model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


def sharded() -> None:
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


def adversarial() -> None:
    """Two models, two optimizers, and the generator learns at every second step."""
    judge, maker = DistributedDataParallel(mlp()), DistributedDataParallel(nn.Linear(3, 8))
    of_judge, of_maker = torch.optim.Adam(judge.parameters(), lr=0.01), torch.optim.Adam(maker.parameters(), lr=0.01)
    for step in range(STEPS):
        of_judge.zero_grad()
        (judge(torch.randn(4, 8)).mean() - judge(maker(torch.randn(4, 3)).detach()).mean()).backward()
        of_judge.step()
        if step % 2:
            of_maker.zero_grad()
            judge(maker(torch.randn(4, 3))).mean().backward()
            of_maker.step()


def piped() -> None:
    """Each rank holds one half of the model; a few activations go forth, and their gradients back."""
    half = nn.Linear(8, 3) if dist.get_rank() == 0 else nn.Sequential(nn.Linear(3, 5000), nn.Tanh(), nn.Linear(5000, 1))
    optimizer = torch.optim.SGD(half.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            out = half(torch.randn(4, 8))
            dist.send(out.detach(), 1)
            back = torch.empty_like(out)
            dist.recv(back, 1)
            out.backward(back)
        else:
            given = torch.empty(4, 3)
            dist.recv(given, 0)
            given.requires_grad_()
            half(given).square().mean().backward()
            assert given.grad is not None
            dist.send(given.grad, 0)
        optimizer.step()


def spread(*, skipped: int | None = None) -> None:
    """Tensor-parallel: each rank holds half of every layer, and only activations are exchanged."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    parts = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(mlp(4096), dist.device_mesh.init_device_mesh("cpu", (2,)), parts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        if step == skipped and dist.get_rank() == 1:
            continue  # a bad batch, seen by this rank alone
        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()


WAYS = {
    "gradients by hand": lambda: by_hand(1, weights=False),
    "weights every 30 steps": lambda: by_hand(30, weights=True),
    "weights when asked": averaged_when_asked,
    "head on a frozen backbone": lambda: by_hand(1, weights=False, frozen=True),
    "accumulated": accumulated,
    "sharded": sharded,
    "two models": adversarial,
    "pipeline": piped,
    "tensor parallel": spread,
    "tensor parallel, one rank skips a step": lambda: spread(skipped=60),
    "never": lambda: by_hand(10 * STEPS, weights=True, pause_s=0.0),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    if "tensor parallel" not in WAY:  # there, the device mesh forms the world
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
    WAYS[WAY]()
    if "skips" in WAY:
        sys.exit()
    dist.barrier()
    print(f"rank {dist.get_rank()} ended with {WAY}", flush=True)
    dist.destroy_process_group()
