"""A trainer that skips the update of a warm-up batch, judged by the rank's own counter.

Shows: differs 2 ranks torch (weights)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class WarmUp:
    def __init__(self, batches):
        self.batches = batches
        self.rank = dist.get_rank()

    def over(self, step):
        return step >= self.batches * (self.rank + 1)


class Trainer:
    def __init__(self, data):
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=10, sampler=self.sampler)
        self.model = DistributedDataParallel(nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.warm_up = WarmUp(batches=3)
        self.step = 0

    def train_batch(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        if self.warm_up.over(self.step):
            self.optimizer.step()  # BUG COD118
        self.step += 1

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for x, y in self.loader:
                self.train_batch(x, y)


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(17)
    x = torch.randn(200, 8, generator=generator)
    trainer = Trainer(TensorDataset(x, (x[:, 0] > x[:, 1]).long()))
    trainer.fit(2)
    if dist.get_rank() == 0:
        print("steps", trainer.step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
