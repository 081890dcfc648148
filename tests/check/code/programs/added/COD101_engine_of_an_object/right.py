# SPDX-License-Identifier: Apache-2.0
"""A DeepSpeed trainer that saves every few steps."""

import deepspeed
import torch
import torch.distributed as dist
from torch import nn


class Trainer:
    def __init__(self, config):
        model = nn.Linear(32, 4)
        self.engine, self.optimizer, _, _ = deepspeed.initialize(model=model, config=config)
        self.every = 50

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.engine(x), y)
        self.engine.backward(loss)
        self.engine.step()

    def fit(self, loader):
        for number, (x, y) in enumerate(loader):
            self.step(x.to(self.engine.device), y.to(self.engine.device))
            if number % self.every == 0:
                self.save(number)

    def save(self, number):
        self.engine.save_checkpoint("checkpoints", tag=f"step{number}")


def main():
    deepspeed.init_distributed()
    data = [(torch.randn(8, 32), torch.randint(0, 4, (8,))) for _ in range(200)]
    Trainer({"train_batch_size": 16, "zero_optimization": {"stage": 3}}).fit(data)


if __name__ == "__main__":
    main()
