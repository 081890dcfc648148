# SPDX-License-Identifier: Apache-2.0
"""Trains with DeepSpeed over several small batches per update."""

import argparse

import deepspeed
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--local_rank", type=int, default=0)
    args = parser.parse_args()
    settings = {
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": args.accumulate,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
    }
    net = nn.Linear(8, 1)
    engine, _, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=settings)
    for number in range(64):
        x = torch.randn(8, 8, device=engine.device)
        engine.backward(engine(x).pow(2).mean())
        engine.step()


if __name__ == "__main__":
    main()
