"""Distils a teacher, whose weights come from a file, into a smaller student with DDP.

From: https://github.com/lucidrains/imagen-pytorch/pull/132
Shows: nothing here (needs GPU)
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def build(width):
    return nn.Sequential(nn.Linear(40, width), nn.GELU(), nn.Linear(width, 10))


def load_teacher(path, device):
    loaded = torch.load(str(path))  # BUG COD108
    teacher = build(256)
    teacher.load_state_dict(loaded["model"])
    teacher.requires_grad_(False)
    return teacher.to(device).eval()


def stream(rank, steps):
    generator = torch.Generator().manual_seed(3000 + rank)
    for _ in range(steps):
        yield torch.randn(64, 40, generator=generator)


def distil(student, teacher, device, steps):
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    for x in stream(dist.get_rank(), steps):
        x = x.to(device)
        with torch.no_grad():
            target = teacher(x).softmax(1)
        loss = nn.functional.cross_entropy(student(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    teacher = load_teacher(args.teacher, device)
    student = DistributedDataParallel(build(32).to(device), device_ids=[device.index])
    distil(student, teacher, device, args.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
