# SPDX-License-Identifier: Apache-2.0
"""Reads samples that are divided among the ranks.

Shows: error 2 ranks torch
"""

import torch
import torch.distributed as dist
from settings import Settings
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def loader(settings: Settings, data):
    sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=settings.batch, sampler=sampler, shuffle=settings.mixed)  # BUG COD104


def main():
    dist.init_process_group("gloo")
    for epoch in range(1):
        for (x,) in loader(Settings(), TensorDataset(torch.randn(16, 2))):
            print(epoch, x.sum().item())
    dist.destroy_process_group()


main()
