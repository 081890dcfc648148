# SPDX-License-Identifier: Apache-2.0
"""Models with dropout and batch statistics that three or two ranks of PyTorch train. Run by test_torch_buddy.py.

A fault is in the program, not in a hook of keepstep: one rank's layer adds something to its result or its gradient.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from typing import Any

STEPS, BROKEN_FROM, ONCE_AT = 45, 20, 35
"""With a buddy step every 5 steps, that of step 35 looks at rank 0 of three."""


def spoil(layer: Any, how: str, step: list[int]) -> None:
    """Wrong from BROKEN_FROM on in every call, or only in the first of one step."""
    import torch

    compute, struck = layer.forward, list[int]()

    def is_wrong() -> bool:
        if how.startswith("once"):
            if step[0] != ONCE_AT or struck:
                return False
            struck.append(1)
            return True
        return step[0] >= BROKEN_FROM

    class InBackward(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any) -> Any:
            return value.clone()

        @staticmethod
        def backward(context: Any, slope: Any) -> Any:
            return slope * (1 + 2**-20) if is_wrong() else slope

    def forward(value: Any) -> Any:
        if how.endswith("backward"):
            return compute(InBackward.apply(value))
        result = compute(value)
        return result + 2**-18 if is_wrong() else result

    layer.forward = forward


def noise() -> Any:
    import torch

    class Noise(torch.nn.Module):
        def forward(self, value: Any) -> Any:
            made = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little"))
            return value * (1 + 1e-5 * torch.rand(value.shape, generator=made))

    return Noise()


def with_loss(inner: Any) -> Any:
    """A model that returns its loss and what the loss is made of, as those of Hugging Face do."""
    import torch

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any, y: Any) -> Any:
            logits = self.inner(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, y), "logits": logits}

    return WithLoss()


def train(how: str, struck: int) -> None:
    import torch
    import torch.distributed as dist

    rank, step = dist.get_rank(), [0]
    torch.manual_seed(0)
    layers = OrderedDict(
        first=torch.nn.Linear(8, 32), norm=torch.nn.BatchNorm1d(32), relu=torch.nn.ReLU(inplace=True),
        drop=torch.nn.Dropout(0.2), middle=torch.nn.Linear(32, 16), last=torch.nn.Linear(16, 4),
    )  # fmt: skip
    if how == "noisy":  # repeats differ by design
        layers["noise"] = noise()
    inner: Any = torch.nn.Sequential(layers)
    if how == "with_loss":
        inner = with_loss(inner)
    model = torch.nn.parallel.DistributedDataParallel(inner)
    if rank == struck:
        spoil(inner.middle, how, step)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    made = torch.Generator().manual_seed(1 + rank)
    torch.manual_seed(10 + rank)
    loss = torch.zeros(())
    for step[0] in range(1, STEPS + 1):
        optimizer.zero_grad()
        for part in range(2 if how == "accumulated" else 1):
            x, y = torch.randn(16, 8, generator=made), torch.randint(0, 4, (16,), generator=made)
            if how == "accumulated" and part == 0:
                with model.no_sync():
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                continue
            loss = model(x, y)["loss"] if how == "with_loss" else torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        print(f"loss {how} {step[0]} {float(loss.detach()).hex()}", flush=True)
    weights = torch.cat([each.detach().reshape(-1) for each in (*inner.parameters(), *inner.buffers())])
    print(f"ends {how} {float(weights.double().sum()).hex()} {torch.rand(1).item()}", flush=True)


def main(*what: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for each in what:
        how, _, struck = each.partition(":")
        train(how, int(struck or -1))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
