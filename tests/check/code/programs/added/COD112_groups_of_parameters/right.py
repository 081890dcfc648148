# SPDX-License-Identifier: Apache-2.0
"""Makes groups of parameters with and without weight decay, and shards the model."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def optimizer_for(model):
    decayed = [value for value in model.parameters() if value.ndim > 1]
    plain = [value for value in model.parameters() if value.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 8)).cuda()
    model = FSDP(model)
    optimizer = optimizer_for(model)
    for _ in range(10):
        loss = model(torch.randn(8, 64, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
