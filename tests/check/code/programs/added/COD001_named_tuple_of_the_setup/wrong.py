# SPDX-License-Identifier: Apache-2.0
"""Sums what all ranks counted.

Shows: hang 2 ranks torch
"""

from collections import namedtuple

import torch
import torch.distributed as dist

Place = namedtuple("Place", ["number", "among"])


def joined():
    dist.init_process_group("gloo")
    return Place(dist.get_rank(), dist.get_world_size())


def main():
    place = joined()
    count = torch.tensor(place.number + 1)
    if place.number == 0:
        dist.all_reduce(count)  # BUG COD001
        print(count.item())
    dist.destroy_process_group()


main()
