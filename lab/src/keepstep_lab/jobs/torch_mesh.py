# SPDX-License-Identifier: Apache-2.0
"""A network in three dimensions on gloo: copies of a pipeline of two stages, each stage split over two ranks."""

from __future__ import annotations

import argparse
import datetime
import logging
import os

import faults as fault
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

log = logging.getLogger("train")
WIDTH = 32


class SumOfParts(torch.autograd.Function):
    """The sum over the ranks that hold a part of the layer; its gradient goes to each of them as it is."""

    @staticmethod
    def forward(ctx: object, part: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        whole = part.clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class Stage(nn.Module):
    """This rank's half of one stage: its columns of the first layer, its rows of the second."""

    def __init__(self, group: dist.ProcessGroup, parts: int) -> None:
        super().__init__()
        self.group = group
        self.first, self.second = nn.Linear(WIDTH, WIDTH // parts), nn.Linear(WIDTH // parts, WIDTH, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return SumOfParts.apply(self.second(self.first(inputs).relu()), self.group)


def main() -> None:
    options = parse()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s rank={rank} %(message)s")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))
    mesh = init_device_mesh("cpu", (world // 4, 2, 2), mesh_dim_names=("data", "pipe", "tensor"))
    log.info("mesh of %s: %s", tuple(mesh.shape), dict(zip(mesh.mesh_dim_names, mesh.get_coordinate(), strict=True)))
    torch.manual_seed(rank)
    stage = Stage(mesh.get_group("tensor"), 2)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    for step in range(options.steps):
        fault.at(step, rank)
        optimizer.zero_grad()
        loss = one_way_and_back(stage, mesh, step, options.batch)
        for each in stage.parameters():
            if each.grad is not None and fault.change("exchanges", True, step, rank):
                dist.all_reduce(each.grad, group=mesh.get_group("data"))
                each.grad /= mesh.size(0)
        optimizer.step()
        if (step + 1) % 10 == 0:
            log.info("step %d%s", step + 1, "" if loss is None else f" loss {loss:.4f}")
    dist.barrier()
    log.info("training finished after %d steps", options.steps)
    dist.destroy_process_group()


def one_way_and_back(stage: Stage, mesh: DeviceMesh, step: int, batch: int) -> float | None:
    """The first stage sends its outputs to the second, which computes the loss and sends gradients back."""
    at, pipe = mesh.get_local_rank("pipe"), mesh.get_group("pipe")
    other = dist.get_global_rank(pipe, 1 - at)
    generator = torch.Generator().manual_seed(step)
    if at == 0:
        outputs = stage(torch.randn(batch, WIDTH, generator=generator))
        dist.send(outputs.detach(), other, group=pipe)
        gradient = torch.empty_like(outputs)
        dist.recv(gradient, other, group=pipe)
        outputs.backward(gradient)
        return None  # the second stage knows it
    inputs = torch.empty(batch, WIDTH)
    dist.recv(inputs, other, group=pipe)
    inputs.requires_grad_()
    loss = stage(inputs).square().mean()
    loss.backward()
    assert inputs.grad is not None
    dist.send(inputs.grad, other, group=pipe)
    return loss.item()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=30.0, help="of collectives, in seconds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
