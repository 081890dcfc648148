# SPDX-License-Identifier: Apache-2.0
"""Resumes from a checkpoint, with a device that is right for one process only.

Shows: nothing here (needs GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch import nn


class Trainer:
    def __init__(self, path):
        self.rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.rank)
        dist.init_process_group("nccl")
        self.model = nn.Linear(32, 32).cuda(self.rank)
        if os.path.exists(path):
            self.resume(path)
        self.model = nn.parallel.DistributedDataParallel(self.model, device_ids=[self.rank])

    def resume(self, path):
        checkpoint = torch.load(path, map_location="cuda:0")  # BUG COD108
        self.model.load_state_dict(checkpoint["model"])

    def train(self, steps):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(steps):
            loss = self.model(torch.randn(4, 32, device=f"cuda:{self.rank}")).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    Trainer("last.pt").train(100)
