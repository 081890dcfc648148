"""A small transformer block under FSDP (fully_shard) on gloo, on CPU."""

from __future__ import annotations

import datetime
import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from lab import faults as fault

log = logging.getLogger("train")
STEPS = 60


class Encoder(nn.Module):
    """Token embedding, two transformer layers, and a projection back to tokens."""

    def __init__(self, width: int = 32, tokens: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.project = nn.Linear(width, tokens)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(inputs)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.project(hidden)


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [%(levelname)s] [rank {rank}] %(message)s")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = fault.change("model", Encoder(), 0, rank)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log.info("sharded %d parameters over %d ranks", sum(p.numel() for p in model.parameters()), mesh.size())
    source = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        fault.at(step, rank)
        inputs = torch.randint(0, 64, (8, 16), generator=source)
        inputs, labels = fault.change("batch", (inputs, inputs.roll(1, 1)), step, rank)
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics = fault.change("metrics", torch.stack([loss.detach(), torch.ones(())]), step, rank)
        dist.all_reduce(metrics)
        if (step + 1) % 10 == 0:
            log.info("step %d/%d loss=%.4f", step + 1, STEPS, metrics[0] / mesh.size())
    dist.barrier()
    log.info("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
