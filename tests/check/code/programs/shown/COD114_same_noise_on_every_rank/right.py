"""Trains a flow-matching policy whose noise and time steps are drawn anew in each step."""

import argparse
import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Policy(nn.Module):
    def __init__(self, actions=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(actions + 1, 32), nn.SiLU(), nn.Linear(32, actions))

    def sample_noise(self, shape):
        return torch.randn(shape)

    def forward(self, actions):
        noise = self.sample_noise(actions.shape)
        time = torch.rand(len(actions), 1)
        noisy = time * noise + (1 - time) * actions
        return nn.functional.mse_loss(self.layers(torch.cat([noisy, time], 1)), noise - actions)


def demonstrations():
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(128, 4, generator=generator))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    set_seed(args.seed + dist.get_rank())
    model = DDP(Policy())
    data = demonstrations()
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for (actions,) in loader:
            optimizer.zero_grad()
            model(actions).backward()
            optimizer.step()
    print(f"rank {dist.get_rank()}: the next draw would be {torch.rand(1).item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
