# SPDX-License-Identifier: Apache-2.0
"""Accumulates gradients; a choice in one line says which backward passes stay local.

Shows: differs 2 ranks torch (weights)
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EVERY = 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())
    for number in range(16):
        x = torch.randn(8, 4)
        context = model.no_sync() if number % EVERY != 0 else contextlib.nullcontext()  # BUG COD116
        with context:
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean() / EVERY
            loss.backward()
        if (number + 1) % EVERY == 0:
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
