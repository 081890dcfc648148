"""Trains a recogniser toy and, at each checkpoint, sums a counter and shares the checkpoint's name.

From: https://github.com/speechbrain/speechbrain/issues/2401
Shows: hang 2 ranks torch
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main_process():
    return dist.get_rank() == 0


class Checkpointer:
    def __init__(self):
        self.saved = []

    def save(self, step, seen):
        name = torch.zeros(1, dtype=torch.long)
        if main_process():  # BUG COD004
            name += step
            dist.broadcast(name, src=0)
            dist.all_reduce(seen)
        else:
            dist.all_reduce(seen)
            dist.broadcast(name, src=0)
        self.saved.append((name.item(), int(seen.item())))


def features(rank, step):
    generator = torch.Generator().manual_seed(31 * step + rank)
    x = torch.randn(12, 10, generator=generator)
    return x, (x[:, 0] > 0).long()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(10, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    checkpointer = Checkpointer()
    seen = torch.zeros(1)
    for step in range(1, 13):
        x, y = features(rank, step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        seen += len(x)
        if step % 4 == 0:
            checkpointer.save(step, seen.clone())
    expected = [(4, 96), (8, 192), (12, 288)]
    assert dist.get_world_size() != 2 or checkpointer.saved == expected, checkpointer.saved
    if main_process():
        print(checkpointer.saved)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
