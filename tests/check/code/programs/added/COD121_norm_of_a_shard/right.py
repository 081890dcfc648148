# SPDX-License-Identifier: Apache-2.0
"""Trains a sharded network and clips its gradients."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


class Trainer:
    def __init__(self, net, lr, limit):
        self.model = FSDP(net, use_orig_params=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.limit = limit

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        norm = self.model.clip_grad_norm_(self.limit)
        self.optimizer.step()
        return loss.item(), norm.item()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    trainer = Trainer(net, lr=1e-3, limit=0.5)
    for _ in range(20):
        x = torch.randn(32, 16, device="cuda")
        trainer.step(x, x.sum(1, keepdim=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
