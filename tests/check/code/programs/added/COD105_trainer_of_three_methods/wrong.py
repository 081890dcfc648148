# SPDX-License-Identifier: Apache-2.0
"""The trainer of many tutorials: train, _run_epoch, _run_batch.

From: https://github.com/pytorch/pytorch/issues/31771
Shows: differs 2 ranks torch (order)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, model, data):
        self.model = nn.parallel.DistributedDataParallel(model)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def _run_batch(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def _run_epoch(self, epoch):
        for x, y in self.loader:
            self._run_batch(x, y)

    def train(self, epochs):
        for epoch in range(epochs):  # BUG COD105
            self._run_epoch(epoch)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    Trainer(nn.Linear(4, 1), data).train(2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
