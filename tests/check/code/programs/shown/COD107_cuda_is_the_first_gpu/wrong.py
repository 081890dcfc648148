"""Trains a generator and a discriminator, each wrapped in DDP, on one GPU per process.

From: https://github.com/marcoamonteiro/pi-GAN/issues/22
Shows: nothing here (needs GPU)
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def real(rank, number, size):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(number):
        angle = torch.rand(size, generator=generator) * 6.28
        yield torch.stack([angle.cos(), angle.sin()], 1), torch.randn(size, 8, generator=generator)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", device_id=device)
    generator = DDP(mlp(8, 32, 2).cuda())  # BUG COD107
    discriminator = DDP(mlp(2, 32, 1).cuda())  # BUG COD107
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
    for points, noise in real(dist.get_rank(), 500, 64):
        points, noise = points.to(device), noise.to(device)
        fake = generator(noise)
        scores = discriminator(torch.cat([points, fake.detach()]))
        half = len(points)
        loss_d = nn.functional.softplus(-scores[:half]).mean() + nn.functional.softplus(scores[half:]).mean()
        optimizer_d.zero_grad()
        loss_d.backward()
        optimizer_d.step()
        loss_g = nn.functional.softplus(-discriminator(fake)).mean()
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
    if dist.get_rank() == 0:
        print("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
