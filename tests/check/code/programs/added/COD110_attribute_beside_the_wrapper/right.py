# SPDX-License-Identifier: Apache-2.0
"""A trainer that keeps both the module and its wrapper."""

import torch
import torch.distributed as dist
from torch import nn


class Trainer:
    def __init__(self, network):
        self.network = network
        self.parallel = nn.parallel.DistributedDataParallel(network)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)

    def step(self, x):
        output = self.parallel(x)
        loss = (output - x.sum(1, keepdim=True)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    trainer = Trainer(nn.Linear(4, 1))
    torch.manual_seed(dist.get_rank())
    for _ in range(20):
        trainer.step(torch.randn(8, 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
