"""Trains a tabular model with gloo and one GPU per process; the device comes from the options.

Shows: nothing here (needs GPU)
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    return parser.parse_args()


class Tabular(nn.Module):
    def __init__(self, columns=30):
        super().__init__()
        self.scale = nn.LayerNorm(columns)
        self.layers = nn.Sequential(nn.Linear(columns, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.layers(self.scale(x)).squeeze(1)


def table(rows=2000):
    generator = torch.Generator().manual_seed(10)
    x = torch.randn(rows, 30, generator=generator)
    return TensorDataset(x, x[:, 0] * x[:, 1])


def main():
    args = options()
    dist.init_process_group("gloo")
    device = torch.device("cuda:0")
    data = table()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=100, sampler=sampler)
    model = DistributedDataParallel(Tabular().to(device))  # BUG COD107
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
