"""Averages gradients by hand, without DDP, in a trainer that seeds each rank.

Shows: differs 2 ranks torch (weights)
"""

import os

import torch
import torch.distributed as dist
from torch import nn


class Config:
    seed = 100
    steps = 25
    lr = 0.05


class HandMadeTrainer:
    def __init__(self, config):
        self.config = config
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo")
        torch.manual_seed(config.seed + self.rank)  # BUG COD114
        self.model = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config.lr)
        self.data = torch.Generator().manual_seed(7 + self.rank)

    def batch(self):
        x = torch.randn(20, 5, generator=self.data)
        return x, (x[:, :1] * x[:, 1:2])

    def reduce_gradients(self):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.world

    def step(self):
        x, y = self.batch()
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.reduce_gradients()
        self.optimizer.step()

    def fit(self):
        for _ in range(self.config.steps):
            self.step()
        if self.rank == 0:
            print("trained", self.config.steps, "steps")
        dist.destroy_process_group()


if __name__ == "__main__":
    HandMadeTrainer(Config()).fit()
