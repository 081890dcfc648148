"""Trains two replicas of a model, each on its own group of ranks, and averages them at the end.

From: https://github.com/pytorch/pytorch/issues/25390
Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist
from torch import nn


def group_ranks(world):
    """One group for the first half of the ranks, one for the second half, one for all."""
    half = max(1, world // 2)
    return [list(range(half)), list(range(half, world)), list(range(world))]


def make_groups(rank, world):
    wanted = group_ranks(world)
    if rank in wanted[1]:
        wanted = [wanted[2], wanted[1], wanted[0]]
    made = {}
    for ranks in wanted:
        made[tuple(ranks)] = dist.new_group(ranks)  # BUG COD117
    return made


def train(model, group, size, rank, steps=10):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(8, 4, generator=generator)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad /= size
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = make_groups(rank, world)
    mine = next(ranks for ranks in group_ranks(world) if rank in ranks)
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    train(model, groups[tuple(mine)], len(mine), rank)
    for parameter in model.parameters():
        dist.all_reduce(parameter.data, group=groups[tuple(range(world))])
        parameter.data /= world
    if rank == 0:
        print("averaged over", world, "ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
