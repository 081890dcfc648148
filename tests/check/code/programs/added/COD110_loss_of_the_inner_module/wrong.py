# SPDX-License-Identifier: Apache-2.0
"""A model with a method that computes its own loss.

From: https://github.com/rosinality/swapping-autoencoder-pytorch/issues/22
Shows: nothing here (not confirmed on two ranks)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.loss(x)

    def loss(self, x):
        return (self.layer(x) - x.sum(1, keepdim=True)).pow(2).mean()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())
    for _ in range(20):
        x = torch.randn(8, 4)
        loss = model.module.loss(x)  # BUG COD110
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
