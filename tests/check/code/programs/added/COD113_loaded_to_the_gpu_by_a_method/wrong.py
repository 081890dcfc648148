# SPDX-License-Identifier: Apache-2.0
"""Reads samples in workers and puts them on the GPU there.

From: https://github.com/pytorch/pytorch/issues/77159
Shows: nothing here (needs a GPU)
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.load(index)

    def load(self, index):
        return torch.full((8,), float(index), device="cuda")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    model = nn.Linear(8, 1).cuda()
    loader = DataLoader(Samples(), batch_size=8, num_workers=args.workers)  # BUG COD113
    for x in loader:
        model(x).mean().backward()


if __name__ == "__main__":
    main()
