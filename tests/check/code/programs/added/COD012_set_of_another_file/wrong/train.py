# SPDX-License-Identifier: Apache-2.0
"""Trains a linear model and adds up several numbers.

From: https://github.com/meta-pytorch/torchrec/pull/4648
Shows: nothing here (needs GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from tracking import Tracker


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    net = DDP(torch.nn.Linear(16, 16).to(device))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    tracker = Tracker(device)
    for step in range(1000):
        loss = net(torch.randn(32, 16, device=device)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        tracker.add(loss=loss.item(), tokens=32)
        if step % 100 == 0:
            print(tracker.reduced())


main()
