"""A trainer that keeps the best checkpoint of a representation-learning run.

From: https://github.com/kakaobrain/scrl/issues/5
Shows: nothing here (a race that is rarely lost)
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def is_main_process():
    return dist.get_rank() == 0


class Trainer:
    def __init__(self, save_dir, data):
        self.save_dir = save_dir
        os.makedirs(save_dir, exist_ok=True)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=25, sampler=self.sampler)
        self.online = DistributedDataParallel(nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 10)))
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-3)
        self.best = float("inf")

    def _save_checkpoint(self, tag):
        path = os.path.join(self.save_dir, f"checkpoint_{tag}.pth")
        state = {"tag": tag, "online": self.online.module.state_dict()}
        torch.save(state, path)  # BUG COD120

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = torch.zeros(1)
        for (x,) in self.loader:
            loss = nn.functional.mse_loss(self.online(x), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        return total.item()

    def run(self, epochs):
        for epoch in range(epochs):
            loss = self.train_epoch(epoch)
            if loss < self.best:
                self.best = loss
                self._save_checkpoint("best")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    samples = torch.randn(300, 10, generator=torch.Generator().manual_seed(19))
    Trainer("checkpoints", TensorDataset(samples)).run(4)
    dist.barrier()
    dist.destroy_process_group()
