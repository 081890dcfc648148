"""Averages gradients by hand while each rank goes through its own list of files.

From: https://github.com/horovod/horovod/issues/708
Shows: hang 2 ranks torch
"""

import os

import torch
import torch.distributed as dist

FILES = [f"part-{number:03d}" for number in range(7)]


def read(name):
    generator = torch.Generator().manual_seed(int(name[-3:]))
    x = torch.randn(32, 4, generator=generator)
    return x, x.sum(1, keepdim=True)


def average_gradients(model):
    size = float(dist.get_world_size())
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= size


def train_one_file(model, optimizer, name):
    x, y = read(name)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    average_gradients(model)
    optimizer.step()


def run(rank, world):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    mine = FILES[rank::world]
    for name in mine:  # BUG COD003
        train_one_file(model, optimizer, name)
    return model


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = run(rank, world)
    if rank == 0:
        print("weight", model.weight.detach().flatten().tolist())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
