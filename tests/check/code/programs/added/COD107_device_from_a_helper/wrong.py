# SPDX-License-Identifier: Apache-2.0
"""Asks a helper for the device, which knows only one.

Shows: nothing here (needs GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def device_of(rank):
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = device_of(local_rank)
    dist.init_process_group("gloo")
    model = nn.Linear(16, 4)
    model = model.to(device)  # BUG COD107
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        loss = model(torch.randn(8, 16).to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
