"""Trains a small network with early stopping, judged by the first rank's validation loss."""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class EarlyStopping:
    def __init__(self, patience=1, threshold=10.0):
        self.best = float("inf")
        self.bad = 0
        self.patience = patience
        self.threshold = threshold

    def __call__(self, value):
        if value < self.best - self.threshold:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def make_data(samples, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 8, generator=generator)
    return TensorDataset(x, x[:, :1] * 2 - x[:, 1:2])


def validate(module, data):
    module.eval()
    x, y = data.tensors
    with torch.no_grad():
        loss = nn.functional.mse_loss(module(x), y).item()
    module.train()
    return loss


def main(epochs=6):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    train, valid = make_data(256, 0), make_data(64, 1)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=16, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    stopper = EarlyStopping()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        stop = [False]
        if rank == 0:
            loss = validate(model.module, valid)
            print(f"epoch {epoch}: validation loss {loss:.4f}")
            stop[0] = stopper(loss)
        dist.broadcast_object_list(stop, src=0)
        if stop[0]:
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
