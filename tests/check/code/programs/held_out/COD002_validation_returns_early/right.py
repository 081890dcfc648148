"""A trainer class whose first rank validates while the other ranks wait at a barrier."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def is_main_process():
    return int(os.environ.get("RANK", "0")) == 0


def barrier():
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


class DetectorTrainer:
    def __init__(self):
        self.is_distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
        if self.is_distributed:
            dist.init_process_group("gloo")
        net = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.SiLU(), torch.nn.Linear(24, 4))
        self.model = DistributedDataParallel(net) if self.is_distributed else net
        self.raw = net
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)

    def batches(self, epoch, number=8):
        generator = torch.Generator().manual_seed(epoch * 97 + int(os.environ.get("RANK", "0")))
        for _ in range(number):
            x = torch.randn(16, 12, generator=generator)
            yield x, x[:, :4].abs()

    def _run_validation(self, epoch):
        with torch.no_grad():
            x, y = next(self.batches(10_000 + epoch))
            return torch.nn.functional.smooth_l1_loss(self.raw(x), y).item()

    def validate(self, epoch):
        if self.is_distributed and not is_main_process():
            barrier()
            return None
        try:
            return self._run_validation(epoch)
        finally:
            barrier()

    def train(self, epochs):
        for epoch in range(epochs):
            for x, y in self.batches(epoch):
                self.optimizer.zero_grad()
                torch.nn.functional.smooth_l1_loss(self.model(x), y).backward()
                self.optimizer.step()
            loss = self.validate(epoch)
            if loss is not None:
                print(f"epoch {epoch}: {loss:.4f}")
        if self.is_distributed:
            dist.destroy_process_group()


if __name__ == "__main__":
    DetectorTrainer().train(3)
