"""A contrastive trainer in the style of a class with hooks before and after each epoch."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler as Sampler


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))

    def forward(self, x):
        z = nn.functional.normalize(self.net(x), dim=1)
        scores = z @ z.t() / 0.5
        return nn.functional.cross_entropy(scores, torch.arange(len(x)))


class Trainer:
    def __init__(self, data, epochs):
        self.epochs = epochs
        self.sampler = Sampler(data, seed=9)
        self.loader = DataLoader(data, batch_size=16, sampler=self.sampler)
        self.model = DistributedDataParallel(Contrastive())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-4)

    def before_epoch(self, epoch):
        self.model.train()
        self.sampler.set_epoch(epoch)

    def run_epoch(self):
        for (x,) in self.loader:
            self.optimizer.zero_grad()
            self.model(x).backward()
            self.optimizer.step()

    def fit(self):
        for epoch in range(self.epochs):
            self.before_epoch(epoch)
            self.run_epoch()


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(13)
    data = TensorDataset(torch.randn(192, 12, generator=generator))
    trainer = Trainer(data, epochs=3)
    trainer.fit()
    if dist.get_rank() == 0:
        print("trained", trainer.epochs, "epochs")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
