import torch
import torch.distributed as dist
from reporting import report_step
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, epochs, batch_size):
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.epochs = epochs
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(128, 10, generator=generator)
        self.data = TensorDataset(x, (x.sum(1) > 0).long())
        self.sampler = DistributedSampler(self.data)
        self.loader = DataLoader(self.data, batch_size=batch_size, sampler=self.sampler)
        self.model = DistributedDataParallel(torch.nn.Linear(10, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def is_reporter(self):
        return self.rank == 0

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        right = 0
        for x, y in self.loader:
            self.optimizer.zero_grad()
            output = self.model(x)
            torch.nn.functional.cross_entropy(output, y).backward()
            self.optimizer.step()
            right = right + (output.argmax(1) == y).sum()
        return right

    def fit(self):
        for epoch in range(self.epochs):
            right = self.train_epoch(epoch)
            report_step(epoch, right, len(self.data), show=self.is_reporter())

    def close(self):
        dist.destroy_process_group()
