"""Trains a model whose weights are split over the ranks and puts them together to save them.

From: https://github.com/huggingface/accelerate/issues/2690
Shows: hang 2 ranks torch
"""

import os
import tempfile

import torch
import torch.distributed as dist


class ShardedLinear(torch.nn.Module):
    """A linear layer of which each rank holds some rows."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.world = dist.get_world_size()
        self.weight = torch.nn.Parameter(torch.randn(outputs // self.world, inputs) * 0.1)

    def forward(self, x):
        return x @ self.weight.t()

    def full_weight(self):
        rows = [torch.empty_like(self.weight) for _ in range(self.world)]
        dist.all_gather(rows, self.weight.detach())
        return torch.cat(rows)


def save(model, folder, is_main):
    if is_main:  # BUG COD004
        weight = model.full_weight()
        torch.save({"weight": weight}, os.path.join(folder, "model.part"))
        os.replace(os.path.join(folder, "model.part"), os.path.join(folder, "model.pt"))
    else:
        dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    is_main = rank == 0
    model = ShardedLinear(6, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    folder = tempfile.mkdtemp()
    for step in range(10):
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        if step % 5 == 4:
            save(model, folder, is_main)
    dist.barrier()
    if is_main:
        rows = torch.load(os.path.join(folder, "model.pt"), map_location="cpu")["weight"].shape[0]
        assert rows == 8, rows
        print("saved", rows, "rows")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
