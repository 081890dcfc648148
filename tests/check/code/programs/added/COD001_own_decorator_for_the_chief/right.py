# SPDX-License-Identifier: Apache-2.0
"""A small trainer whose summaries are written by a function that a decorator of the project guards."""

import functools

import torch
import torch.distributed as dist
from torch import nn


def chiefs_task(function):
    """Run a function on the first rank."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if dist.get_rank() == 0:
            return function(*args, **kwargs)
        return None

    return wrapper


def summary(losses):
    together = torch.tensor([sum(losses), float(len(losses))])
    dist.all_reduce(together)
    tell((together[0] / together[1]).item())


@chiefs_task
def tell(mean):
    print("mean loss", mean)


def train(steps):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        x = torch.randn(16, 8)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    summary(losses)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(10)
    dist.destroy_process_group()
