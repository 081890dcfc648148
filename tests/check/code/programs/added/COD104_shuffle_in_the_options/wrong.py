# SPDX-License-Identifier: Apache-2.0
"""Builds its loader from options that were written for one process.

Shows: error 2 ranks torch
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def loader_for(data, batch_size):
    options = {"batch_size": batch_size, "shuffle": True, "drop_last": True}
    sampler = DistributedSampler(data)
    return DataLoader(data, sampler=sampler, **options), sampler  # BUG COD104


def main():
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader, sampler = loader_for(data, 8)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
