# SPDX-License-Identifier: Apache-2.0
"""A trainer that is given its job, and reports the mean loss.

Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist
from job import Job
from torch import nn


class Trainer:
    def __init__(self, job):
        self.job = job
        self.model = nn.parallel.DistributedDataParallel(nn.Linear(6, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def step(self):
        loss = self.model(torch.randn(4, 6)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run(self):
        for step in range(self.job.steps):
            loss = self.step()
            if self.job.speaks:
                dist.all_reduce(loss)  # BUG COD001
                print(step, loss.item())


def main():
    dist.init_process_group("gloo")
    Trainer(Job()).run()
    dist.destroy_process_group()


main()
