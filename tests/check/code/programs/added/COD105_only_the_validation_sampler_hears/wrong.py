# SPDX-License-Identifier: Apache-2.0
"""Two samplers, of which the wrong one is told about epochs.

Shows: differs 2 ranks torch (order)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    held_out = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    train_sampler = DistributedSampler(data)
    val_sampler = DistributedSampler(held_out, shuffle=False)
    loader = DataLoader(data, batch_size=8, sampler=train_sampler)
    val_loader = DataLoader(held_out, batch_size=8, sampler=val_sampler)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):  # BUG COD105
        val_sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        print(sum(nn.functional.mse_loss(model.module(x), y).item() for x, y in val_loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
