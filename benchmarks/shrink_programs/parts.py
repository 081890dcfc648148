# SPDX-License-Identifier: Apache-2.0
"""The model and the data of the program beside this file."""

import torch
from torch import nn


class Block(nn.Module):
    """Two layers with a way around them."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + torch.relu(self.inner(self.norm(x)))


class Model(nn.Module):
    def __init__(self, inputs, width, classes):
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))

    def count(self):
        return sum(each.numel() for each in self.parameters())


class Batches:
    """As many random batches as were asked for."""

    def __init__(self, count, size, rank):
        self.count, self.size = count, size
        self.random = torch.Generator().manual_seed(rank)

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            x = torch.randn(self.size, 16, generator=self.random)
            y = torch.randint(0, 6, (self.size,), generator=self.random)
            yield x, y


def moving_average(values, count):
    last = values[-count:]
    return sum(last) / max(len(last), 1)


def accuracy(model, batches):
    right = total = 0
    with torch.no_grad():
        for x, y in batches:
            right += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return right / total
