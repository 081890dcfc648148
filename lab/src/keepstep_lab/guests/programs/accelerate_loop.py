# SPDX-License-Identifier: Apache-2.0
"""A loop with Hugging Face Accelerate, as its quick tour writes it, with its own saved state.

accelerate launch --cpu --num_processes 2 accelerate_loop.py
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(42)
    torch.set_num_threads(1)

    x = torch.randn(1024, 24)
    y = (x @ torch.randn(24, 1)).tanh()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=1)
    model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    for epoch in range(3):
        model.train()
        for step, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            if step % 8 == 0:
                print(f"rank {accelerator.process_index} epoch {epoch} step {step} loss {loss.item()!r}", flush=True)
        mean = accelerator.gather(loss.detach().reshape(1)).mean()
        accelerator.print(f"epoch {epoch} mean loss {mean.item()!r}", flush=True)
        accelerator.save_state("state")
    accelerator.end_training()


if __name__ == "__main__":
    main()
