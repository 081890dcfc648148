# SPDX-License-Identifier: Apache-2.0
"""Exchanges counts and names, on the first rank in another order than on the rest."""

import torch
import torch.distributed as dist


class Directory:
    def __init__(self):
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def exchange(self, count, name):
        counts = torch.tensor([count])
        names = [None] * self.ranks
        dist.all_reduce(counts)
        dist.all_gather_object(names, name)
        return counts.item(), names


def main():
    dist.init_process_group("gloo")
    directory = Directory()
    print(directory.exchange(3 + directory.rank, f"worker-{directory.rank}"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
