# SPDX-License-Identifier: Apache-2.0
"""Counts the records that a loader with two workers gives.

From: https://github.com/pytorch/pytorch/issues/30599
Shows: differs 2 ranks torch (prints records 20)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Records(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                yield torch.tensor(float(line))


def main():
    dist.init_process_group("gloo")
    with tempfile.NamedTemporaryFile("w", suffix=f".{dist.get_rank()}") as file:
        file.write("".join(f"{number}\n" for number in range(10)))
        file.flush()
        loader = DataLoader(Records(file.name), batch_size=5, num_workers=2)  # BUG COD126
        print("records", sum(len(batch) for batch in loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
