# SPDX-License-Identifier: Apache-2.0
"""A torch training whose step needs memory for each row; the last rank may have too little. See test_microbatches.py.

What a row needs is asked of torch's own allocator and never written to: only the limit of the address space is real.
"""

from __future__ import annotations

import datetime
import resource
import sys

import torch
import torch.distributed as dist

import keepstep

ROWS, PER_ROW = 10, 1 << 28


def spare(limit: int) -> None:
    """Leave this many bytes of address space."""
    with open("/proc/self/statm") as read:
        used = int(read.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))


def main(rows_that_fit: float, fails: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        ).eval()
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def gradients(parts):
        optimizer.zero_grad()
        total, counted = 0.0, 0
        for (x, y), share in parts:
            activations = torch.empty(len(x) * PER_ROW, dtype=torch.uint8)
            if fails and rank == world - 1:
                raise ValueError("bad shape")
            loss = torch.nn.functional.mse_loss(model.module(x), y) * share
            loss.backward()
            total, counted = total + loss.item(), counted + 1
            del activations
        return total, counted

    for number in range(4):
        if rank == world - 1 and number == 1 and rows_that_fit:
            spare(int(rows_that_fit * PER_ROW))
        rows = ROWS - rank  # the ranks' batches differ, and ten and nine rows cannot be halved twice
        x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(number * world + rank))
        loss, counted = keepstep.microbatches(gradients, (x, x.sum(1, keepdim=True)), wait_s=120)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        print(f"step {number}: loss {loss:.5f} in {counted} parts", flush=True)
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    print("ended with", " ".join(f"{each:.4f}" for each in weights.tolist()[:40]), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), "".join(sys.argv[2:]))
