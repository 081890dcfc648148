# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on the torch backend with DistributedDataParallel, in the manner of the Keras guide to distributed training
with PyTorch."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_model():
    inputs = keras.Input(shape=(12, 12, 1))
    x = keras.layers.Conv2D(8, 3, use_bias=False)(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.ReLU()(x)
    x = keras.layers.Flatten()(x)
    outputs = keras.layers.Dense(5)(x)
    return keras.Model(inputs, outputs)


def get_dataset():
    generator = torch.Generator().manual_seed(9)
    x = torch.rand(512, 12, 12, 1, generator=generator)
    return TensorDataset(x, (x.mean(dim=(1, 2, 3)) * 50).long() % 5)


def per_process(rank, world_size, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    keras.utils.set_random_seed(3)
    torch.set_num_threads(1)
    data = get_dataset()
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, shuffle=False)
    loader = DataLoader(data, sampler=sampler, batch_size=16, shuffle=False)
    model = get_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = torch.nn.CrossEntropyLoss()
    ddp_model = torch.nn.parallel.DistributedDataParallel(model)
    for epoch in range(3):
        for step, (inputs, targets) in enumerate(loader):
            loss = loss_fn(ddp_model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 4 == 0:
                print(f"rank {rank} epoch {epoch} step {step} loss {loss.item()!r}", flush=True)
    if rank == 0:
        model.save_weights("final.weights.h5")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(
        per_process, args=(2, int(os.environ.get("PORT", "29511"))), nprocs=2, join=True, start_method="spawn"
    )
