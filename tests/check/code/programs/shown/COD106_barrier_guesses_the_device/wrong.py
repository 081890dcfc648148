"""Starts one process per GPU with spawn, tests the connection, then trains a segmentation toy.

From: https://github.com/NVIDIA/nccl/issues/541
Shows: nothing here (needs GPU)
"""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))


def batches(rank, number):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(number):
        images = torch.rand(4, 3, 32, 32, generator=generator)
        yield images, (images.mean(1) > 0.5).long()


def worker(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group(backend="NCCL", rank=rank, world_size=world_size)  # BUG COD106
    dist.barrier()
    device = torch.device("cuda", rank)
    model = DistributedDataParallel(network().to(device), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, masks in batches(rank, 50):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), masks.to(device))
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print("trained on", world_size, "devices")
    dist.destroy_process_group()


def main():
    devices = torch.cuda.device_count()
    if devices < 2:
        raise SystemExit("this program needs two GPUs")
    mp.spawn(worker, nprocs=devices, args=(devices,))


if __name__ == "__main__":
    main()
