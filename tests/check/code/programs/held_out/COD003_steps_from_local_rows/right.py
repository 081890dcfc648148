"""Trains on rows split unevenly over the ranks, with a number of steps taken from the own rows."""

import torch
from torch.distributed import ReduceOp, all_reduce, destroy_process_group, get_rank, get_world_size, init_process_group


class RowSplit:
    def __init__(self, rows, rank, world):
        share = rows // world
        start = rank * share
        stop = rows if rank == world - 1 else start + share
        self.first, self.length = start, stop - start

    def batch(self, step, size):
        begin = self.first + step * size
        index = torch.arange(begin, begin + size, dtype=torch.float32)
        x = torch.stack([index.sin(), index.cos(), torch.ones(size)], 1)
        return x, index.sin().mul(0.5).add(0.25).unsqueeze(1)


class Trainer:
    def __init__(self, rows=299, size=10):
        self.rank, self.world = get_rank(), get_world_size()
        self.split = RowSplit(rows, self.rank, self.world)
        self.size = size
        torch.manual_seed(1)
        self.model = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, number):
        x, y = self.split.batch(number, self.size)
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        for value in self.model.parameters():
            all_reduce(value.grad)
            value.grad.div_(self.world)
        self.optimizer.step()

    def epoch(self):
        steps = self.split.length // self.size
        fewest = torch.tensor(steps)
        all_reduce(fewest, op=ReduceOp.MIN)
        for number in range(fewest.item()):
            self.step(number)


init_process_group("gloo")
trainer = Trainer()
for _ in range(3):
    trainer.epoch()
if trainer.rank == 0:
    print("bias", trainer.model.bias.item())
destroy_process_group()
