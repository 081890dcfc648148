# SPDX-License-Identifier: Apache-2.0
"""Trains a linear model, one process per GPU, on the hosts that the launcher names.

From: https://github.com/meta-llama/llama-cookbook/issues/90
Shows: nothing here (needs two hosts with GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def setup():
    number = int(os.environ["RANK"])
    torch.cuda.set_device(number)  # BUG COD122
    dist.init_process_group("nccl", init_method="env://")
    return number


def main():
    gpu = setup()
    model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[gpu])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 8).cuda()).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
