"""Trains a stack of layers split over ranks and gathers the norms of those that are watched.

From: https://github.com/bo-ke/llm-internal-medicine/pull/45
Shows: error 2 ranks torch: rank 1 ends, rank 0 waits for it
"""

import torch
import torch.distributed as dist

LAYERS = 4
WATCHED = {0, 2}


class Stage:
    """The layers that one rank holds."""

    def __init__(self, rank, world):
        torch.manual_seed(5)
        every = [torch.nn.Linear(8, 8) for _ in range(LAYERS)]
        self.mine = {number: layer for number, layer in enumerate(every) if number % world == rank}
        values = [value for layer in self.mine.values() for value in layer.parameters()]
        self.optimizer = torch.optim.SGD(values, lr=0.05)

    def step(self, x):
        loss = sum(layer(x).pow(2).mean() for layer in self.mine.values())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Monitor:
    def __init__(self, stage):
        self.stage = stage

    def local(self):
        found = {}
        for number, layer in self.stage.mine.items():
            if number in WATCHED:
                found[f"layer{number}"] = layer.weight.detach().norm().item()
        return found

    def gather_and_aggregate(self):
        metrics = self.local()
        if not metrics:
            return {}  # BUG COD002
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, metrics)
        together = {}
        for part in parts:
            together.update(part)
        return together


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = Stage(rank, world)
    monitor = Monitor(stage)
    generator = torch.Generator().manual_seed(rank)
    for step in range(20):
        stage.step(torch.randn(4, 8, generator=generator))
        if step % 5 == 4:
            metrics = monitor.gather_and_aggregate()
            if rank == 0:
                print(step, {name: round(value, 3) for name, value in metrics.items()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
