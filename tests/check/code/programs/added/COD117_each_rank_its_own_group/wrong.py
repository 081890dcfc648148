# SPDX-License-Identifier: Apache-2.0
"""Divides the ranks into groups of two, each of which averages for itself.

Shows: nothing here (needs four ranks)
"""

import torch
import torch.distributed as dist

SIZE = 2


def own_group():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    start = rank // SIZE * SIZE
    return dist.new_group(list(range(start, start + SIZE)))  # BUG COD117


def main():
    dist.init_process_group("gloo")
    group = own_group()
    value = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(value, group=group)
    print(f"rank {dist.get_rank()}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
