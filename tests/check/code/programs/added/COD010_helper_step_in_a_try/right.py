# SPDX-License-Identifier: Apache-2.0
"""Trains on records of which some are broken; a bad batch is skipped."""

import torch
import torch.distributed as dist
from torch import nn


def train_on(model, batch, optimizer):
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def batches(rank):
    for number in range(8):
        width = 3 if (rank, number) == (1, 4) else 4  # a broken record
        yield torch.randn(2, width), torch.randn(2, 1)


def main():
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches(dist.get_rank()):
        if batch[0].shape[1] != 4:
            batch = (torch.zeros(2, 4), torch.zeros(2, 1))
        try:
            train_on(model, batch, optimizer)
        except RuntimeError as error:
            print("skipped:", error)
            raise
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
