"""Resumes a training from a snapshot when there is one, with torchrun and one GPU per process."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, snapshot_path="snapshot.pt"):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.snapshot_path = snapshot_path
        self.epochs_run = 0
        self.model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1)).to(self.local_rank)
        if os.path.exists(snapshot_path):
            self._load_snapshot()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.model = DDP(self.model, device_ids=[self.local_rank])

    def _load_snapshot(self):
        snapshot = torch.load(self.snapshot_path, map_location=f"cuda:{self.local_rank}")
        self.model.load_state_dict(snapshot["model"])
        self.epochs_run = snapshot["epochs_run"]

    def _save_snapshot(self, epoch):
        snapshot = {"model": self.model.module.state_dict(), "epochs_run": epoch + 1}
        torch.save(snapshot, self.snapshot_path + ".part")
        os.replace(self.snapshot_path + ".part", self.snapshot_path)

    def train(self, data, epochs):
        sampler = DistributedSampler(data)
        loader = DataLoader(data, batch_size=32, sampler=sampler, pin_memory=True)
        for epoch in range(self.epochs_run, epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                self.optimizer.zero_grad()
                output = self.model(x.to(self.local_rank))
                nn.functional.mse_loss(output, y.to(self.local_rank)).backward()
                self.optimizer.step()
            if dist.get_rank() == 0:
                self._save_snapshot(epoch)
            dist.barrier()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Trainer().train(TensorDataset(torch.randn(2048, 20), torch.randn(2048, 1)), epochs=10)
    dist.destroy_process_group()
