"""Trains an image classifier with DDP and validates it on the first process."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ImageClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.fc(x.flatten(1))


def images(number, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(number, 3, 8, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 10, (number,), generator=generator))


def validation(model, loader):
    model.eval()
    right = torch.zeros(())
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum()
    model.train()
    return right / len(loader.dataset)


def train(epochs=3):
    dist.init_process_group("gloo")
    gpu = dist.get_rank()
    train_set, val_set = images(160, 0), images(48, 1)
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=16, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=16)
    model = DDP(ImageClassifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        if gpu == 0:
            accuracy = validation(model.module, val_loader)
            print(f"epoch {epoch}: {accuracy.item():.3f}")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
