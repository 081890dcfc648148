# SPDX-License-Identifier: Apache-2.0
"""Trains with Accelerate and samples from the model on the main process.

From: https://github.com/huggingface/accelerate/issues/2081
Shows: nothing here (needs accelerate)
"""

import torch
from accelerate import Accelerator
from torch import nn


def main():
    accelerator = Accelerator()
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    probe = torch.randn(4, 8, device=accelerator.device)
    for epoch in range(3):
        model.train()
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.is_main_process:
            with torch.no_grad():
                sample = model(probe)  # BUG COD102
            print(epoch, sample.mean().item())


if __name__ == "__main__":
    main()
