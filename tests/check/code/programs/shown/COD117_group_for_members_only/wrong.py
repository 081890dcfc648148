"""Trains on all ranks but computes the reports on a smaller group of ranks.

From: https://github.com/pytorch/pytorch/pull/28247
Shows: hang 2 ranks torch
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

RANK = int(os.environ.get("RANK", 0))
REPORTERS = [0]


class Reports:
    def __init__(self):
        self.member = RANK in REPORTERS
        self.group = None
        if self.member:
            self.group = dist.new_group(REPORTERS)  # BUG COD117

    def mean(self, value):
        if not self.member:
            return None
        total = value.detach().clone()
        dist.all_reduce(total, group=self.group)
        return total.item() / len(REPORTERS)


def samples(steps):
    generator = torch.Generator().manual_seed(60 + RANK)
    for _ in range(steps):
        x = torch.randn(12, 7, generator=generator)
        yield x, x.max(1, keepdim=True).values


def main():
    dist.init_process_group("gloo")
    reports = Reports()
    everyone = dist.new_group(list(range(dist.get_world_size())))
    model = DDP(nn.Linear(7, 1), process_group=everyone)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(samples(20), start=1):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            mean = reports.mean(loss)
            if mean is not None:
                print(f"step {step}: {mean:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
