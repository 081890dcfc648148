# SPDX-License-Identifier: Apache-2.0
"""A small transformer under FSDP (fully_shard) on gloo, with sharded checkpoints."""

from __future__ import annotations

import argparse
import datetime
import logging
import os
import signal
import sys

import faults as fault
import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, TensorDataset

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # before torch 2.6
    from torch.distributed._composable.fsdp import fully_shard

log = logging.getLogger("train")
LENGTH = 16
TOKENS = 64


class Encoder(nn.Module):
    """Token embedding, two transformer layers, and a projection back to tokens."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.project = nn.Linear(width, TOKENS)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(inputs)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.project(hidden)


def main() -> None:
    options = parse()
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [%(levelname)s] [rank {rank}] %(message)s")
    signal.signal(signal.SIGTERM, leave)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = fault.change("model", Encoder(), 0, rank)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log.info("sharded %d parameters over %d ranks", sum(p.numel() for p in model.parameters()), mesh.size())
    step = load(model, options.resume) if options.resume else 0
    data = fault.change("data", tokens(os.path.join(options.data, f"points-{rank:02d}.npz")), 0, rank)
    loader = DataLoader(data, options.batch, num_workers=options.workers, drop_last=True)
    while step < options.steps:
        for batch in loader:
            fault.at(step, rank)
            inputs, labels = fault.change("batch", batch, step, rank)
            loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics = fault.change("metrics", torch.stack([loss.detach(), torch.ones(())]), step, rank)
            dist.all_reduce(metrics)
            step += 1
            if step % 10 == 0:
                log.info("step %d/%d loss=%.4f", step, options.steps, metrics[0] / mesh.size())
            if options.save and step % options.save_every == 0:
                save(model, step, options.save)
            if step == options.steps:
                break
    dist.barrier()
    log.info("done")
    dist.destroy_process_group()


def leave(number: int, frame: object) -> None:
    """The machine is wanted back: the last checkpoint must do."""
    log.warning("received %s, leaving", signal.Signals(number).name)
    sys.exit(128 + number)


def tokens(path: str) -> TensorDataset:
    """The shard's points as tokens; the model learns to shift them by one."""
    with np.load(path) as shard:
        inputs = torch.from_numpy((shard["x"][:, :LENGTH] * 8 + TOKENS // 2).clip(0, TOKENS - 1)).long()
    return TensorDataset(inputs, inputs.roll(1, 1))


def save(model: nn.Module, step: int, folder: str) -> None:
    """Write a checkpoint; each rank its own part."""
    dcp.save({"model": get_model_state_dict(model), "step": torch.tensor(step)}, checkpoint_id=folder)
    log.info("saved checkpoint %s at step %d", folder, step)


def load(model: nn.Module, folder: str) -> int:
    """Read a checkpoint; the step it was written at."""
    state = {"model": get_model_state_dict(model), "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state["model"])
    log.info("resumed from %s at step %d", folder, state["step"])
    return int(state["step"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="the folder of the shards")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--workers", type=int, default=0, help="data loading processes")
    parser.add_argument("--timeout", type=float, default=30.0, help="of collectives, in seconds")
    parser.add_argument("--save", help="the folder to write checkpoints to")
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--resume", help="the checkpoint to go on from")
    return parser.parse_args()


if __name__ == "__main__":
    main()
