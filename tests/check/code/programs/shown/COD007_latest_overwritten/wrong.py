"""Trains with DDP, saves after each epoch and resumes from the saved state.

From: https://github.com/Lightning-AI/pytorch-lightning/issues/688
Shows: nothing here (needs a kill while it saves)
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "latest.pt"))


def save(model, optimizer, epoch):
    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(state, CHECKPOINT)  # BUG COD007


def load(model, optimizer):
    if not CHECKPOINT.exists():
        return 0
    state = torch.load(CHECKPOINT, map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"] + 1


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(320, 9, generator=generator)
    data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(9, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    start = load(model, optimizer)
    dist.barrier()
    for epoch in range(start, start + 4):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            save(model, optimizer, epoch)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
