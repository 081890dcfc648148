"""Trains sparse autoencoders on the layers of a frozen network, some layers on each rank."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

LAYERS = ["embed", "middle", "output"]


class SparseAutoencoder(nn.Module):
    def __init__(self, width=8, features=32):
        super().__init__()
        self.encode = nn.Linear(width, features)
        self.decode = nn.Linear(features, width)

    def forward(self, x):
        top = self.encode(x).relu().topk(4, 1)
        code = torch.zeros(len(x), 32).scatter(1, top.indices, top.values)
        return self.decode(code)


class SaeTrainer:
    def __init__(self, folder):
        self.folder = folder
        torch.manual_seed(30)
        self.saes = {name: SparseAutoencoder() for name in LAYERS}
        self.rank_zero = not dist.is_initialized() or dist.get_rank() == 0
        values = [value for sae in self.saes.values() for value in sae.parameters()]
        self.optimizer = torch.optim.Adam(values, lr=1e-3)
        self.hidden = torch.Generator().manual_seed(300 + dist.get_rank())

    def step(self):
        self.optimizer.zero_grad()
        for sae in self.saes.values():
            x = torch.randn(16, 8, generator=self.hidden)
            nn.functional.mse_loss(sae(x), x).backward()
            for value in sae.parameters():
                dist.all_reduce(value.grad)
        self.optimizer.step()

    def save(self, step):
        if self.rank_zero:
            for name, sae in self.saes.items():
                path = os.path.join(self.folder, f"{name}-{step}.pt")
                torch.save(sae.state_dict(), path)
        dist.barrier()

    def fit(self, steps):
        for step in range(1, steps + 1):
            self.step()
            if step % 5 == 0:
                self.save(step)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    SaeTrainer(tempfile.mkdtemp()).fit(15)
    dist.destroy_process_group()
