# SPDX-License-Identifier: Apache-2.0
"""Takes the backend from the command line; without options it is NCCL."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dist-backend", default="nccl")
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()


def main():
    args = options()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(args.dist_backend)
    device = torch.device("cuda", local_rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4).to(device), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(args.steps):
        loss = model(torch.randn(8, 16, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
