"""Trains a forecaster with a trainer class that logs through the logging module.

Shows: differs 2 ranks torch (prints rank 1. step 33:)
"""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("forecaster")


def set_up_logging():
    rank = os.environ.get("RANK", "0")
    logging.basicConfig(level=logging.INFO, format=f"[rank {rank}] %(message)s")


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
            log.info("step %d: loss %.5f", step, loss)  # BUG COD009


def main():
    set_up_logging()
    dist.init_process_group("gloo")
    Trainer(Forecaster(), dist.get_rank()).fit(200)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
