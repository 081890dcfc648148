# SPDX-License-Identifier: Apache-2.0
"""Trains a sharded transformer and saves it now and then."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

from saver import Saver


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = FSDP(torch.nn.Transformer(d_model=64).cuda())
    opt = torch.optim.Adam(model.parameters())
    saver = Saver("out", 500, writes=dist.get_rank() == 0)
    for step in range(1, 5001):
        x = torch.randn(10, 4, 64, device="cuda")
        loss = model(x, x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        saver.maybe_save(model, step)


main()
