# SPDX-License-Identifier: Apache-2.0
"""Trains on the cores of a TPU with PyTorch/XLA and saves at the end of each epoch.

Shows: nothing here (needs torch_xla)
"""

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
from torch import nn


def train_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        xm.optimizer_step(optimizer)


def run(index, flags):
    device = xm.xla_device()
    torch.manual_seed(flags["seed"])
    model = nn.Linear(32, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.rand(256, 32), torch.randint(0, 10, (256,)))
    sampler = torch.utils.data.distributed.DistributedSampler(
        data, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal()
    )
    loader = torch.utils.data.DataLoader(data, batch_size=16, sampler=sampler)
    for epoch in range(flags["epochs"]):
        sampler.set_epoch(epoch)
        train_epoch(model, pl.ParallelLoader(loader, [device]).per_device_loader(device), optimizer)
        if xm.is_master_ordinal():
            print(f"epoch {epoch} done")
            xm.rendezvous("epoch_end")  # BUG COD001


if __name__ == "__main__":
    xmp.spawn(run, args=({"seed": 1, "epochs": 3},))
