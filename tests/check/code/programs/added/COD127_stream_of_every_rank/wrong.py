# SPDX-License-Identifier: Apache-2.0
"""Trains with DDP on a stream of samples.

From: https://github.com/Lightning-AI/pytorch-lightning/issues/15734
Shows: differs 2 ranks torch (samples)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        for row in self.rows:
            yield row[:8], row[8:]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    stream = Stream(torch.randn(96, 9))
    loader = DataLoader(stream, batch_size=12)  # BUG COD127
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
