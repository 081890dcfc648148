"""Trains with DDP while the first rank evaluates for a long time after each epoch."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def texts(number, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 60, (number, 10), generator=generator)
    return TensorDataset(x, (x.float().mean(1) > 30).long())


def evaluate(model, loader):
    """Counts what the model gets right; takes hours on the real data."""
    counts = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            counts += torch.tensor([(model(x).argmax(1) == y).sum().item(), len(y)])
    return counts


def main():
    backend = os.environ.get("BACKEND", "gloo")
    dist.init_process_group(backend)
    rank = dist.get_rank()
    train_set, test_set = texts(320, 0), texts(80, 1)
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size=16, sampler=sampler)
    test_loader = DataLoader(test_set, batch_size=16, sampler=DistributedSampler(test_set, shuffle=False))
    net = nn.Sequential(nn.EmbeddingBag(60, 12), nn.Linear(12, 2))
    model = DDP(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        counts = evaluate(net, test_loader)
        dist.all_reduce(counts)
        if rank == 0:
            print(f"epoch {epoch}: {(counts[0] / counts[1]).item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
