# SPDX-License-Identifier: Apache-2.0
"""Divides the ranks into groups of two, each of which averages for itself."""

import torch
import torch.distributed as dist

SIZE = 2


def own_group():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(start, start + SIZE))) for start in range(0, ranks, SIZE)]
    return groups[rank // SIZE]


def main():
    dist.init_process_group("gloo")
    group = own_group()
    value = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(value, group=group)
    print(f"rank {dist.get_rank()}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
