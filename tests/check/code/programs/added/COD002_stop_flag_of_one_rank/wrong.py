# SPDX-License-Identifier: Apache-2.0
"""Stops early when the first rank finds that the loss is small enough.

From: https://github.com/ultralytics/yolov5/pull/8345
Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    held_out = torch.randn(16, 4)
    stop = False
    for epoch in range(50):
        for _ in range(4):
            x = torch.randn(8, 4)
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            with torch.no_grad():
                error = (model.module(held_out) - held_out.sum(1, keepdim=True)).abs().mean()
            stop = error.item() < 0.5
        if stop:
            break  # BUG COD002
    print(f"rank {rank}: {epoch} epochs")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
