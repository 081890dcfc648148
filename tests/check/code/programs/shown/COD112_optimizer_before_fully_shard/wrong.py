"""Trains a small network with fully_shard; the parts are built in one function.

Shows: differs 2 ranks torch (prints -> 0[.][67])
"""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@dataclass
class Parts:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    device: torch.device


def build():
    use_cuda = torch.cuda.is_available()
    local_rank = int(os.environ["LOCAL_RANK"])
    if use_cuda:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)  # BUG COD112
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return Parts(model, optimizer, device)


def train(parts, steps):
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = torch.zeros(steps)
    for step in range(steps):
        x = torch.randn(32, 6, generator=generator).to(parts.device)
        y = (x[:, 0] > 0).long()
        parts.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parts.model(x), y)
        loss.backward()
        parts.optimizer.step()
        losses[step] = loss.detach()
    return losses


if __name__ == "__main__":
    losses = train(build(), 60)
    if dist.get_rank() == 0:
        print(f"loss {losses[:5].mean():.3f} -> {losses[-5:].mean():.3f}")
    dist.destroy_process_group()
