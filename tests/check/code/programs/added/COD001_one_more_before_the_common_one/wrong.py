# SPDX-License-Identifier: Apache-2.0
"""Averages a vector over all ranks after the first rank has prepared a file.

Shows: nothing here (not confirmed on two ranks)
"""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        print("preparing the data")
        dist.barrier()  # BUG COD001
    dist.barrier()
    value = torch.full((4,), float(rank))
    dist.all_reduce(value)
    print(rank, (value / dist.get_world_size()).tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
