"""Trains a siamese network with DDP on pairs of views of the same samples."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Pairs(Dataset):
    def __init__(self, number=96):
        generator = torch.Generator().manual_seed(12)
        self.base = torch.randn(number, 10, generator=generator)
        self.shift = torch.randn(number, 10, generator=generator) * 0.1

    def __len__(self):
        return len(self.base)

    def __getitem__(self, index):
        return self.base[index] + self.shift[index], self.base[index] - self.shift[index]


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 6))
        self.predictor = nn.Linear(6, 6)

    def forward(self, left, right):
        a, b = self.encoder(left), self.encoder(right)
        return -nn.functional.cosine_similarity(self.predictor(a), b.detach()).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=12)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Pairs()
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(Siamese())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for left, right in loader:
            optimizer.zero_grad()
            model(left, right).backward()
            optimizer.step()
    if dist.get_rank() == 0:
        print("batches per epoch", len(loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
