# SPDX-License-Identifier: Apache-2.0
"""Trains a sharded network whose settings name the folder.

From: https://github.com/TensorAuto/OpenTau/pull/396
Shows: nothing here (needs GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from checkpoint import save
from config import TrainConfig


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    cfg = TrainConfig(name=os.environ.get("JOB", "base")).validate()
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    fully_shard(model)
    optim = torch.optim.AdamW(model.parameters(), 1e-4)
    for step in range(cfg.steps):
        loss = model(torch.randn(8, 512, device="cuda")).pow(2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 100 == 99:
            save(model, optim, cfg, step)


main()
