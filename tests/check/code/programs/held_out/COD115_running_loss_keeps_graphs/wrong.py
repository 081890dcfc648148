"""Trains a label model with DDP and reports the mean loss of each epoch.

From: https://github.com/BatsResearch/labelmodels/issues/4
Shows: nothing here (each step keeps only kilobytes)
"""

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

logging.basicConfig(level=logging.INFO)


class LabelModel(nn.Module):
    def __init__(self, functions=64, width=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(functions, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.out = nn.Linear(width, 2)

    def forward(self, votes):
        return self.out(self.layers(votes)).log_softmax(1)


def votes(rows=2_400):
    generator = torch.Generator().manual_seed(0)
    table = torch.randint(-1, 2, (rows, 64), generator=generator).float()
    return TensorDataset(table, (table.sum(1) > 0).long())


def do_estimate(model, loader, sampler, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        running_loss = 0.0
        for batch, labels in loader:
            optimizer.zero_grad()
            scores = model(batch)
            loss = nn.functional.nll_loss(scores, labels) + scores.pow(2).mean() * 1e-3
            loss.backward()
            optimizer.step()
            running_loss += loss  # BUG COD115
        if dist.get_rank() == 0:
            logging.info("epoch %d: %.4f", epoch, float(running_loss) / len(loader))


def main():
    dist.init_process_group("gloo")
    data = votes()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=24, sampler=sampler)
    do_estimate(DDP(LabelModel()), loader, sampler, epochs=2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
