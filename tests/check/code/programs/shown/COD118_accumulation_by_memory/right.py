"""Accumulates gradients over a number of batches that follows from the memory of the device."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

GLOBAL_BATCH = 64
MEMORY_GB = {0: 16, 1: 8}


def micro_batch(rank):
    """What fits on the device of a rank."""
    return 2 * MEMORY_GB.get(rank, 8)


def batches(rank, size, number):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(number):
        x = torch.randn(size, 6, generator=generator)
        yield x, x.square().sum(1, keepdim=True)


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    size = min(micro_batch(other) for other in range(dist.get_world_size()))
    accumulation = GLOBAL_BATCH // size
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.zero_grad()
    updates = 0
    for number, (x, y) in enumerate(batches(rank, size, 16), start=1):
        loss = nn.functional.mse_loss(model(x), y) / accumulation
        loss.backward()
        if number % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
    if rank == 0:
        print("updates", updates)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
