"""Trains a regression with DDP and writes a line of figures per epoch, memory among them."""

import json
import os

import psutil
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Figures:
    def __init__(self, enabled):
        self.enabled = enabled
        self.process = psutil.Process(os.getpid())

    def write(self, epoch, loss):
        gpu_memory_gb = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
        if self.enabled:
            print(json.dumps({"epoch": epoch, "loss": round(loss, 4), "gpu_memory_gb": round(gpu_memory_gb, 3)}))


def build():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 6, generator=generator)
    return TensorDataset(x, x.prod(1, keepdim=True))


def main():
    use_cuda = torch.cuda.is_available()
    local_rank = int(os.environ["LOCAL_RANK"])
    if use_cuda:
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    dist.init_process_group("nccl" if use_cuda else "gloo")
    data = build()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=20, sampler=sampler)
    model = DDP(torch.nn.Linear(6, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    figures = Figures(enabled=dist.get_rank() == 0)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        total = torch.zeros((), device=device)
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        figures.write(epoch, total.item() / len(loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
