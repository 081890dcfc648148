# SPDX-License-Identifier: Apache-2.0
"""Fits a line with Accelerate, four small batches for each update."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

PASSES = 4


def main():
    accelerator = Accelerator(gradient_accumulation_steps=PASSES)
    x = torch.arange(64.0).unsqueeze(1) / 64
    loader = DataLoader(TensorDataset(x, 3 * x), batch_size=4)
    line = torch.nn.Linear(1, 1)
    descent = torch.optim.SGD(line.parameters(), lr=0.1)
    line, descent, loader = accelerator.prepare(line, descent, loader)
    for inputs, targets in loader:
        with accelerator.accumulate(line):
            error = torch.nn.functional.mse_loss(line(inputs), targets)
            accelerator.backward(error)
            descent.step()
            descent.zero_grad()
    accelerator.print(error.item())


if __name__ == "__main__":
    main()
