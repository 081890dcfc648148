# SPDX-License-Identifier: Apache-2.0
"""Models that PyTorch's ranks train together, one after the other, each with a fault from outside or a lawful
difference. Run by test_torch_replicas.py: what is named ``flip_*`` is struck, on the rank after the colon.

A fault is a plain write into the memory of a tensor, by another thread and after the step: no hook sees it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys
import threading
import time
from collections import OrderedDict
from typing import Any

WIDTH, STEPS, STRUCK_AT = 16, 40, 21
DEVICE = os.environ.get("REPLICAS_ON", "cpu")
"""``cuda``: all ranks on one GPU. There, the bits are changed by an operation on the storage."""


def flip(tensor: Any, word: int, bits: int) -> None:
    """Bits of one word in memory, by another thread."""

    def write() -> None:
        if DEVICE == "cpu":
            ctypes.c_uint32.from_address(tensor.data_ptr() + 4 * word).value ^= bits
        else:
            import torch

            tensor.data.view(-1).view(torch.int32)[word] ^= bits
            torch.cuda.synchronize()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


def until_noticed(name: str) -> None:
    """Until a guard has written it down, within bounds."""
    end, notes = time.monotonic() + 60.0, pathlib.Path(os.environ["KEEPSTEP_DIR"])
    wanted = f'"tensor": "{name}'.encode(), f" of {name}".encode()
    while time.monotonic() < end:
        lines = [line for each in notes.glob("*.jsonl") for line in each.read_bytes().splitlines()]
        if any(b"ReplicaOdd" in line and any(each in line for each in wanted) for line in lines):
            return
        time.sleep(0.2)


def train(how: str, struck: int) -> None:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    torch.manual_seed(rank if how == "apart" else 0)
    layers = [torch.nn.Linear(8, WIDTH), torch.nn.BatchNorm1d(WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 4)]
    inner = torch.nn.Sequential(OrderedDict({how: torch.nn.Sequential(*layers)})).to(DEVICE)
    weight = layers[3].weight
    model = inner
    if how.endswith("shards"):  # two replicas, each of two shards: ranks 0 and 2 hold the same, and 1 and 3
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(inner, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards")))
        weight = dict(inner.named_parameters())[f"{how}.3.weight"]
    elif how != "apart":
        model = torch.nn.parallel.DistributedDataParallel(inner, find_unused_parameters=how == "unused")
    if how == "no_broadcast":
        model.broadcast_buffers = False
    if how == "local_sgd":
        from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local

        own = dist.new_subgroups(1)[0]
        model.register_comm_hook(local.PostLocalSGDState(None, own, STRUCK_AT), local.post_localSGD_hook)
    average = torch.optim.swa_utils.AveragedModel(inner) if how == "average_on_rank_0" and rank == 0 else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    made = torch.Generator().manual_seed(1 + rank)
    for step in range(1, STEPS + 1):
        x, y = torch.randn(4, 8, generator=made), torch.randint(0, 4, (4,), generator=made)
        x, y = x.to(DEVICE), y.to(DEVICE)
        late = step > STRUCK_AT
        optimizer.zero_grad()
        with model.no_sync() if late and how == "no_sync" else contextlib.nullcontext():
            loss = torch.nn.functional.cross_entropy((inner if late and how == "bypassed" else model)(x), y)
            loss.backward()
        optimizer.step()
        if average is not None:
            average.update_parameters(inner)
        if step == STRUCK_AT and rank == struck:
            tensor = optimizer.state[weight]["exp_avg"] if how == "flip_state" else weight
            flip(getattr(tensor, "_local_tensor", tensor), 9, 1 << 3)
        if rank == 0 and how == "flip_weight" and step in (STRUCK_AT - 5, STRUCK_AT + 2):
            pathlib.Path("ckpt").mkdir(exist_ok=True)
            torch.save(inner.state_dict(), f"ckpt/step_{step}.pt")
        if how.startswith("flip") and step == STEPS - 4:
            until_noticed(how)
        time.sleep(0.01)
    print(f"rank {rank}: {how} lost {float(loss.detach()):.9g}", flush=True)


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
