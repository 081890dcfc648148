# SPDX-License-Identifier: Apache-2.0
"""Trains a linear model under mpirun."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from launch_env import read_env


def main():
    env = read_env()
    dist.init_process_group("nccl", rank=env.proc, world_size=env.procs)
    torch.cuda.set_device(env.cuda)
    net = DistributedDataParallel(torch.nn.Linear(8, 8).to(env.cuda))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(100):
        loss = net(torch.randn(4, 8, device=env.cuda)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
