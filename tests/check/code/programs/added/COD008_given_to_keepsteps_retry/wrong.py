# SPDX-License-Identifier: Apache-2.0
"""Reads each batch from a store that is busy at times, then averages it over all ranks.

Shows: nothing here (needs a store that fails)
"""

import pathlib
import sys

import torch
import torch.distributed as dist

import keepstep


def read(path):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32)


def mean_of(path):
    values = read(path)
    dist.all_reduce(values)
    return values / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.bin")):
        mean = keepstep.retry(mean_of, path, attempts=4)  # BUG COD008
        print(path.name, mean.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
