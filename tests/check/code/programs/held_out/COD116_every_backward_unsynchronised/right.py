"""Trains with large batches, which it splits into micro batches to save memory."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

MICRO = 8


def series(number=256):
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(number, 16, generator=generator)
    return TensorDataset(x, x.cumsum(1)[:, -1:])


def accumulate(model, x, y):
    micro_batches = list(zip(x.split(MICRO), y.split(MICRO)))
    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        with nullcontext() if number == len(micro_batches) else model.no_sync():
            loss = nn.functional.mse_loss(model(inputs), targets)
            (loss / len(micro_batches)).backward()


def main():
    dist.init_process_group("gloo")
    data = series()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            accumulate(model, x, y)
            optimizer.step()
    if dist.get_rank() == 0:
        print("2 epochs")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
