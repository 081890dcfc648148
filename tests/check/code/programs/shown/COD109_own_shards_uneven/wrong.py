"""Trains with DDP on shards whose numbers of rows differ from rank to rank.

From: https://github.com/Lightning-AI/pytorch-lightning/issues/20404
Shows: error 2 ranks torch: the last gradient meets another collective
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ROWS = {0: 210, 1: 150}


def shard(rank):
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(ROWS[rank], 5, generator=generator)
    return TensorDataset(x, x.norm(dim=1, keepdim=True))


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 15), nn.ReLU(), nn.Linear(15, 1))

    def forward(self, x):
        return self.layers(x)


def smallest(value):
    answer = torch.tensor(value)
    dist.all_reduce(answer, op=dist.ReduceOp.MIN)
    return answer.item()


def main():
    dist.init_process_group(os.environ.get("BACKEND", "gloo"))
    rank = dist.get_rank()
    loader = DataLoader(shard(rank), batch_size=10, shuffle=True)
    model = DistributedDataParallel(Regressor())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        for x, y in loader:  # BUG COD109
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        least = smallest(len(loader))
        if rank == 0:
            print(f"epoch {epoch}: at least {least} batches per rank")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
