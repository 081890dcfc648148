# SPDX-License-Identifier: Apache-2.0
"""Synchronises batch statistics, but converts the layers of a model that is wrapped already."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import SyncBatchNorm
from torch.nn.parallel import DistributedDataParallel as DDP


def build(rank):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    model = model.to(rank)
    model(torch.randn(2, 3, 8, 8, device=f"cuda:{rank}"))
    model = SyncBatchNorm.convert_sync_batchnorm(model)
    model = DDP(model, device_ids=[rank])
    return model


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = build(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(torch.randn(4, 3, 8, 8, device=f"cuda:{rank}")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
