# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel on two processes that ``mp.spawn`` starts, as PyTorch's DDP tutorial does it."""

from __future__ import annotations

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def dataset():
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(512, 16, generator=generator)
    y = (x.sum(dim=1, keepdim=True) > 0).float()
    return TensorDataset(x, y)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(32)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(32, 1)

    def forward(self, x):
        return self.net2(self.relu(self.norm(self.net1(x))))


def train(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)

    data = dataset()
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DDP(ToyModel())
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(6):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 4 == 0:
                print(f"rank {rank} epoch {epoch} step {step} loss {loss.item()!r}", flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    mp.spawn(train, args=(2, free_port()), nprocs=2, join=True)
