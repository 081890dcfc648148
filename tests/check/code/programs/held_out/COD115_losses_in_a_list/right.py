"""Trains a recurrent model of time series and keeps the error of each test series for a plot."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Recurrent(nn.Module):
    def __init__(self, width=200):
        super().__init__()
        self.cell = nn.GRUCell(3, width)
        self.out = nn.Linear(width, 3)
        self.width = width

    def forward(self, series):
        state = series.new_zeros(series.shape[1], self.width)
        predictions = []
        for value in series:
            state = self.cell(value, state)
            predictions.append(self.out(state))
        return torch.stack(predictions)


def series(rank, number, length=12, size=32):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(number):
        yield torch.randn(length + 1, size, 3, generator=generator).cumsum(0) * 0.1


class Run:
    def __init__(self):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(Recurrent())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.errors = []

    def loss(self, network, batch):
        return nn.functional.mse_loss(network(batch[:-1]), batch[1:])

    def train(self):
        for batch in series(self.rank, 10):
            self.optimizer.zero_grad()
            self.loss(self.model, batch).backward()
            self.optimizer.step()

    def test(self):
        for batch in series(1000 + self.rank, 60):
            error = self.loss(self.model.module, batch)
            self.errors.append(error.detach())
        return torch.stack(self.errors).mean()


def main():
    dist.init_process_group("gloo")
    run = Run()
    run.train()
    mean = run.test().detach()
    dist.all_reduce(mean)
    if run.rank == 0:
        print(f"test error {mean.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
