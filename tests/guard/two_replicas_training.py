# SPDX-License-Identifier: Apache-2.0
"""Models that two PyTorch ranks train together, one after the other, each with a fault on the rank after the colon.

Run by test_torch_replicas.py. A model is struck when the guards have seen its replicas agree, and trained until they
have said which of the two is wrong.
"""

from __future__ import annotations

import gc
import os
import pathlib
import random
import sys
import time
from collections import OrderedDict
from typing import Any

from keepstep.guard.agree.fingerprints import BASELINE, Fingerprints
from tests.guard.replicas_training import flip

LONGEST_S = 60.0
FOUND: list[Fingerprints] = []


def adam() -> Any:
    return sys.modules["torch.optim.adam"]


def strike(how: str, torch: Any) -> None:
    """From now on this processor computes wrong: the word 9 of what Adam has made. What makes it so lies below torch's
    optimizer, and knows nothing of the guard."""
    right, chance = adam()._single_tensor_adam, random.Random(1)

    def wrong(params: Any, *args: Any, **kwargs: Any) -> None:
        right(params, *args, **kwargs)
        if params[0].dtype is torch.float32 and (how == "stuck" or chance.random() < 0.5):
            for each in params:
                if each.numel() > 9:
                    each.data.view(-1).view(torch.int32)[9] ^= 1 << (21 if how == "stuck" else 3)

    adam()._single_tensor_adam = wrong


def told(name: str) -> bool:
    notes = pathlib.Path(os.environ["KEEPSTEP_DIR"])
    lines = [line for each in notes.glob("*.jsonl") for line in each.read_text(errors="replace").splitlines()]
    return any("OddOfTwo" in line and f"{name}." in line for line in lines)


def agreed(name: str) -> bool:
    """Whether this rank's guard knows that all tensors were equal, often enough."""
    if not FOUND:
        FOUND.extend(each for each in gc.get_objects() if type(each) is Fingerprints)
    known = [each for one in FOUND for each in one._known.values()]
    return any(
        each.agreed_at is not None
        and all(often >= BASELINE for often in each.agreed.values())
        and any(f"{name}." in tensor for tensor in each.agreed)
        for each in known
    )


def train(how: str, struck: int) -> None:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
    inner = torch.nn.Sequential(OrderedDict({how: torch.nn.Sequential(*layers)}))
    weight, right = layers[2].weight, adam()._single_tensor_adam
    model = torch.nn.parallel.DistributedDataParallel(inner)
    kind = torch.optim.SGD if how == "clipped" else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.99)
    made = torch.Generator().manual_seed(1 + rank)
    over, ready, step, struck_at = torch.zeros(1), torch.zeros(1), 0, 0
    end = time.monotonic() + LONGEST_S
    while not over:
        step += 1
        x, y = torch.randn(4, 8, generator=made), torch.randint(0, 4, (4,), generator=made)
        struck_at = struck_at or (step + 5 if ready else 0)
        is_struck = rank == struck and 0 < struck_at <= step

        def closure(x: Any = x, y: Any = y, is_struck: bool = is_struck) -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            if is_struck and how == "clipped":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            return loss

        if how == "closure":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        schedule.step()
        if is_struck and how == "outside":
            weight.data += 1e-3
        if is_struck and step == struck_at:
            if how in ("once", "huge", "closure"):
                flip(weight, 9, 1 << (30 if how == "huge" else 3))
            elif how in ("stuck", "erring"):
                strike(how, torch)
        if step % 8 == 0:
            over.fill_(float(rank == 0 and (told(how) or time.monotonic() > end)))
            ready.fill_(float(rank == 0 and agreed(how)))
            dist.broadcast(over, 0)
            dist.broadcast(ready, 0)
        time.sleep(0.02)
    adam()._single_tensor_adam = right
    print(f"rank {rank}: {how} ended at step {step}", flush=True)


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
