# SPDX-License-Identifier: Apache-2.0
"""Trains a line on two ranks; a report at the end of each epoch averages the loss."""

import torch
import torch.distributed as dist
from torch import nn


def report(epoch, total, lead):
    if lead:
        mean = total / dist.get_world_size()
        print(f"epoch {epoch}: {mean.item():.4f}")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for epoch in range(3):
        total = torch.zeros(1)
        for _ in range(5):
            x = torch.randn(8, 4, generator=generator)
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        report(epoch, total, dist.get_rank() == 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
