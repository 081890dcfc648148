"""A trainer for a graph network, written as a class, with graphs of very different sizes."""

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

logger = logging.getLogger(__name__)
LIMIT = 900


class GraphNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.node = nn.Linear(width, width)
        self.edge = nn.Bilinear(width, width, 1)

    def forward(self, nodes):
        hidden = self.node(nodes).tanh()
        number = len(hidden)
        if number * number > LIMIT:
            raise RuntimeError(f"not enough memory: {number} nodes")
        left = hidden.repeat_interleave(number, 0)
        right = hidden.repeat(number, 1)
        return self.edge(left, right).mean()


class GraphTrainer:
    def __init__(self):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(GraphNet())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(40 + self.rank)

    def graph(self, step):
        nodes = 40 if (step == 5 and self.rank == 0) else 12
        return torch.randn(nodes, 6, generator=self.generator)

    def training_step(self, step):
        graph = self.graph(step)
        small = graph[: int(LIMIT**0.5)]
        loss = self.model(small).pow(2)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return True

    def fit(self, steps):
        done = sum(self.training_step(step) for step in range(steps))
        dist.barrier()
        return done


def main():
    dist.init_process_group("gloo")
    done = GraphTrainer().fit(12)
    if dist.get_rank() == 0:
        print(done, "steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
