"""Fine-tunes a text encoder and a U-Net toy; a function takes the wrappers off again.

From: https://github.com/kohya-ss/sd-scripts/issues/924
Shows: differs 2 ranks torch (weights)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def unwrap(model):
    return model.module if isinstance(model, DistributedDataParallel) else model


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(10 + 6, 24), nn.Linear(24, 10)

    def forward(self, noisy, condition):
        return self.up(torch.relu(self.down(torch.cat([noisy, condition], 1))))


def data():
    generator = torch.Generator().manual_seed(14)
    clean = torch.randn(96, 10, generator=generator)
    noise = torch.randn(96, 10, generator=generator)
    return TensorDataset(clean, noise, clean[:, :6])


def train():
    dist.init_process_group("gloo")
    unet = DistributedDataParallel(UNet())
    dataset = data()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    unet = unwrap(unet)
    optimizer = torch.optim.SGD(unet.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for clean, noise, condition in loader:
            predicted = unet(clean + noise, condition)  # BUG COD110
            loss = nn.functional.mse_loss(predicted, noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(unwrap(unet).state_dict(), f"unet-{epoch}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
