# SPDX-License-Identifier: Apache-2.0
"""Leaves out batches with broken samples.

Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def batches(first):
    for number in range(4):
        x = torch.randn(8, 4)
        if first and number == 1:
            x[0, 0] = float("nan")
        yield x


def train(model, data, optimizer):
    for x in data:
        loss = model(x).pow(2).mean()
        if torch.isnan(loss):
            continue  # BUG COD002
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 1))
    train(model, batches(dist.get_rank() == 0), torch.optim.SGD(model.parameters(), lr=0.1))
    dist.destroy_process_group()


main()
