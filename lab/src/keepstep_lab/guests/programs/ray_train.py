# SPDX-License-Identifier: Apache-2.0
"""Ray Train's TorchTrainer with two workers on the CPU, as its getting-started page writes it."""

from __future__ import annotations

import os
import tempfile

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_func(config):
    torch.manual_seed(5)
    torch.set_num_threads(1)
    x = torch.randn(512, 12)
    y = x.pow(2).sum(dim=1, keepdim=True)
    loader = ray.train.torch.prepare_data_loader(DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    rank = ray.train.get_context().get_world_rank()
    for epoch in range(config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for step, (inputs, targets) in enumerate(loader):
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 4 == 0:
                print(f"rank {rank} epoch {epoch} step {step} loss {loss.item()!r}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


if __name__ == "__main__":
    ray.init(num_cpus=3, include_dashboard=False)
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"lr": 1e-2, "epochs": 4},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(storage_path=os.path.abspath("results"), name="run"),
    )
    result = trainer.fit()
    print(f"final loss {result.metrics['loss']!r}", flush=True)
    ray.shutdown()
