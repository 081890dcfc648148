"""Trains a forecaster with a trainer class that logs through the logging module."""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("forecaster")


def set_up_logging():
    rank = os.environ.get("RANK", "0")
    logging.basicConfig(level=logging.INFO if rank == "0" else logging.WARNING, format=f"[rank {rank}] %(message)s")


class Forecaster(nn.Module):
    def __init__(self, window=24):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(window, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, past):
        return self.layers(past)


class Trainer:
    def __init__(self, model, rank, log_every=25):
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.rank = rank
        self.log_every = log_every

    def windows(self, steps):
        generator = torch.Generator().manual_seed(77 + self.rank)
        for _ in range(steps):
            start = torch.rand(16, 1, generator=generator) * 6
            series = (start + torch.arange(25) * 0.25).sin()
            yield series[:, :-1], series[:, -1:]

    def fit(self, steps):
        for step, (past, future) in enumerate(self.windows(steps)):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(past), future)
            loss.backward()
            self.optimizer.step()
            if step % self.log_every == 0:
                log.info("step %d: loss %.5f", step, loss)


def main():
    set_up_logging()
    dist.init_process_group("gloo")
    Trainer(Forecaster(), dist.get_rank()).fit(200)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
