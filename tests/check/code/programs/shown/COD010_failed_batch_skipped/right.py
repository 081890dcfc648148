"""Trains a classifier with DDP on data that contains a few batches which cannot be computed."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CLASSES = 5


def loader(rank, batches):
    """Batch 3 of rank 1 has a label that does not exist."""
    generator = torch.Generator().manual_seed(rank)
    for number in range(batches):
        inputs = torch.randn(8, 14, generator=generator)
        targets = torch.randint(0, CLASSES, (8,), generator=generator)
        if rank == 1 and number == 3:
            targets[0] = CLASSES + 2
        yield inputs, targets


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, CLASSES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    skipped = 0
    for epoch in range(2):
        for inputs, targets in loader(rank, 10):
            bad = torch.tensor(int(((targets < 0) | (targets >= CLASSES)).any()))
            dist.all_reduce(bad)
            if bad.item() > 0:
                skipped += 1
                continue
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
    dist.barrier()
    if rank == 0:
        print("skipped", skipped)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
