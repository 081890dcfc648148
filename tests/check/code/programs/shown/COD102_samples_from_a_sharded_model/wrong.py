"""Trains a small generative model with fully_shard and draws samples from it while it trains.

From: https://github.com/Lightning-AI/pytorch-lightning/issues/15860
Shows: hang 2 ranks torch
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Denoiser(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.inner = nn.Linear(width + 1, 32)
        self.outer = nn.Linear(32, width)

    def forward(self, x, time):
        return self.outer(torch.tanh(self.inner(torch.cat([x, time], 1))))


def is_main():
    return dist.get_rank() == 0


@torch.no_grad()
def draw(model, device, steps=5):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 8, generator=generator).to(device)
    for number in range(steps, 0, -1):
        time = torch.full((4, 1), number / steps, device=device)
        x = x - model(x, time) / steps
    return x


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    use_cuda = torch.cuda.is_available()
    if use_cuda:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    model = Denoiser().to(device)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    for step in range(1, 31):
        clean = torch.randn(16, 8, generator=generator).to(device) * 0.1
        noise = torch.randn(16, 8, generator=generator).to(device)
        time = torch.rand(16, 1, generator=generator).to(device)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(clean + noise * time, time), noise).backward()
        optimizer.step()
        if step % 10 == 0:
            if is_main():
                spread = draw(model, device).std().item()  # BUG COD102
                print(f"step {step}: spread {spread:.3f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
