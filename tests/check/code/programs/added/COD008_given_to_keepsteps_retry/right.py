# SPDX-License-Identifier: Apache-2.0
"""Reads each batch from a store that is busy at times, then averages it over all ranks."""

import pathlib
import sys

import torch
import torch.distributed as dist

import keepstep


def read(path):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32)


def mean_of(values):
    dist.all_reduce(values)
    return values / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.bin")):
        values = keepstep.retry(read, path, attempts=4, together=True)
        print(path.name, mean_of(values).sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
