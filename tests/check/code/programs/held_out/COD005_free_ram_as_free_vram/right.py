"""Chooses a batch size from the free memory of the device, then trains an autoencoder with it."""

import os

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BYTES_PER_SAMPLE = 64 * 2**20
LARGEST = 64


def free_device_memory(device):
    """Free memory of the device, in bytes; 0 where there is no device."""
    if device.type != "cuda":
        return 0
    free, _ = torch.cuda.mem_get_info(device)
    return free


def choose_batch_size(device):
    size = torch.tensor(max(1, min(LARGEST, free_device_memory(device) // BYTES_PER_SAMPLE)), device=device)
    dist.all_reduce(size, op=dist.ReduceOp.MIN)
    return int(size)


class AutoEncoder(nn.Module):
    def __init__(self, width=32, code=4):
        super().__init__()
        self.encode = nn.Linear(width, code)
        self.decode = nn.Linear(code, width)

    def forward(self, x):
        return self.decode(torch.relu(self.encode(x)))


def main():
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if torch.cuda.is_available():
        device = torch.device(f"cuda:{local_rank}")
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    batch_size = choose_batch_size(device)
    if dist.get_rank() == 0:
        print("VRAM allows a batch size of", batch_size)
    model = DistributedDataParallel(AutoEncoder().to(device))
    optimizer = torch.optim.Adam(model.parameters())
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(10):
        x = torch.rand(batch_size, 32, generator=generator).to(device)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
    dist.destroy_process_group()


main()
