# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engine with ZeRO stage 1 on the CPU, as its getting-started page writes it.

deepspeed --num_accelerators 2 deepspeed_zero.py
"""

from __future__ import annotations

import argparse

import deepspeed
import torch
from torch import nn
from torch.utils.data import TensorDataset


def dataset():
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(800, 16, generator=generator)
    return TensorDataset(x, x.sum(dim=1, keepdim=True).sin())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo")
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    }
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=dataset(), config=config
    )
    for step, (inputs, targets) in enumerate(loader):
        loss = nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        if step % 5 == 0:
            print(f"rank {engine.global_rank} step {step} loss {loss.item()!r}", flush=True)
    engine.save_checkpoint("checkpoints", tag="last")


if __name__ == "__main__":
    main()
