# SPDX-License-Identifier: Apache-2.0
"""Trains on features that the dataset computes.

From: https://github.com/pytorch/pytorch/issues/40403
Shows: nothing here (needs GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from dataset import Encoded


def main(workers=4):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data = Encoded("images.pt")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=workers)  # BUG COD113
    net = DDP(torch.nn.Linear(1000, 10).cuda())
    opt = torch.optim.Adam(net.parameters())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x in loader:
            loss = net(x.cuda()).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


main()
