# SPDX-License-Identifier: Apache-2.0
"""Moves batches to the GPU in the loader's workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def collate(rows):
    x = torch.stack([row[0] for row in rows])
    y = torch.stack([row[1] for row in rows])
    return x.cuda(), y.cuda()


def main():
    model = nn.Linear(8, 1).cuda()
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=8, collate_fn=collate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
