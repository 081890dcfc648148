# SPDX-License-Identifier: Apache-2.0
"""FSDP2 (``fully_shard``) on gloo, with a distributed checkpoint, as PyTorch's FSDP2 tutorial does it."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Transformer(nn.Module):
    def __init__(self, vocabulary=64, width=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (world_size,))
    model = Transformer()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(rank + 1)
    for step in range(60):
        tokens = torch.randint(0, 64, (8, 16))
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"rank {rank} step {step} loss {loss.item()!r}", flush=True)
        if step % 30 == 29:
            weights, moments = get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optim": moments}, checkpoint_id=f"checkpoints/step{step + 1}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
