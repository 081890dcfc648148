# SPDX-License-Identifier: Apache-2.0
"""Averages over the rows of a grid of ranks, two in each row.

From: https://github.com/pytorch/pytorch/issues/25390
Shows: nothing here (needs four ranks)
"""

import torch
import torch.distributed as dist

ACROSS = 2


class Layout:
    def __init__(self):
        here = dist.get_rank()
        self.line, self.place = divmod(here, ACROSS)

    def beside(self):
        start = self.line * ACROSS
        return dist.new_group([start + step for step in range(ACROSS)])  # BUG COD117


def main():
    dist.init_process_group("gloo")
    layout = Layout()
    group = layout.beside()
    value = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(value, group=group)
    print(f"place {layout.place}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
