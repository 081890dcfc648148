"""Trains a crossing detector with DDP and sums its validation loss after training."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Detector(nn.Module):
    def __init__(self, inputs=32, width=1024):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.second = nn.Linear(width, width)
        self.light = nn.Linear(width, 5)

    def forward(self, x):
        return self.light(self.second(self.first(x).tanh()).tanh())


def crossings(number, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(number, 32, generator=generator)
    return TensorDataset(x, x[:, :5].argmax(1))


def train(model, data):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(data, batch_size=50, sampler=DistributedSampler(data))
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def validate(module, data):
    module.eval()
    loader = DataLoader(data, batch_size=200, sampler=DistributedSampler(data, shuffle=False))
    val_running_loss = torch.zeros(())
    for x, y in loader:
        loss = nn.functional.cross_entropy(module(x), y)
        val_running_loss += loss.detach()
    return val_running_loss / len(loader)


def main():
    dist.init_process_group("gloo")
    model = DDP(Detector())
    train(model, crossings(400, 0))
    mean = validate(model.module, crossings(24_000, 1)).detach()
    dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(f"validation loss {mean.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
