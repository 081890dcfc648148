# SPDX-License-Identifier: Apache-2.0
"""Copies the data to the disk of each host, unless they are there."""

import os

import torch
import torch.distributed as dist

FOLDER = os.environ.get("SLURM_TMPDIR")


def fetch(path):
    torch.save(torch.ones(4), path)


def prepare(name):
    path = os.path.join(FOLDER, name)
    if not os.path.isfile(path):
        fetch(path)
    dist.barrier()
    return torch.load(path)


def main():
    dist.init_process_group("gloo")
    print(prepare(f"samples{dist.get_world_size()}.pt").sum().item())
    dist.destroy_process_group()


main()
