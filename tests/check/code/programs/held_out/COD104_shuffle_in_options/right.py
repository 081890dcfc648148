"""Trains a variational autoencoder whose loader options stand in a dictionary."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class VAE(nn.Module):
    def __init__(self, width=20, code=3):
        super().__init__()
        self.encoder = nn.Linear(width, 2 * code)
        self.decoder = nn.Linear(code, width)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        kl = 0.5 * (mean.pow(2) + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return nn.functional.mse_loss(self.decoder(mean), x) + 0.01 * kl


class BaseTrainer:
    def __init__(self, data, batch_size=16):
        self.data = data
        self.options = {"batch_size": batch_size, "drop_last": False}
        self.model = DDP(VAE())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def get_train_dataloader(self):
        self.sampler = DistributedSampler(self.data, num_replicas=dist.get_world_size(), rank=dist.get_rank())
        return DataLoader(self.data, sampler=self.sampler, **self.options)

    def train(self, epochs):
        loader = self.get_train_dataloader()
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for (x,) in loader:
                self.optimizer.zero_grad()
                self.model(x).backward()
                self.optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    samples = torch.rand(128, 20, generator=torch.Generator().manual_seed(6))
    BaseTrainer(TensorDataset(samples)).train(2)
    dist.destroy_process_group()
