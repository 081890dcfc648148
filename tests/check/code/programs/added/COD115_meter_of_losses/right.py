# SPDX-License-Identifier: Apache-2.0
"""Keeps the mean loss in a meter, as many examples do."""

import torch
from torch import nn


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, count=1):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / max(self.count, 1)


def train(model, loader, optimizer, scaler):
    meter = Meter()
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        meter.update(loss.detach(), len(x))
    return meter.mean


def main():
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    data = [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(50)]
    print(float(train(model, data, optimizer, scaler)))


if __name__ == "__main__":
    main()
