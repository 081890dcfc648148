# SPDX-License-Identifier: Apache-2.0
"""Counts the records that a loader with two workers gives."""

import tempfile
from itertools import islice

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Records(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            worker = get_worker_info()
            for line in islice(file, worker.id, None, worker.num_workers):
                yield torch.tensor(float(line))


def main():
    dist.init_process_group("gloo")
    with tempfile.NamedTemporaryFile("w", suffix=f".{dist.get_rank()}") as file:
        file.write("".join(f"{number}\n" for number in range(10)))
        file.flush()
        loader = DataLoader(Records(file.name), batch_size=5, num_workers=2)
        print("records", sum(len(batch) for batch in loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
