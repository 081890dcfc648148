# SPDX-License-Identifier: Apache-2.0
"""Reads samples in workers and puts them on the GPU there."""

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
        return torch.full((8,), float(index))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    model = nn.Linear(8, 1).cuda()
    loader = DataLoader(Samples(), batch_size=8, num_workers=args.workers)
    for x in loader:
        model(x.cuda()).mean().backward()


if __name__ == "__main__":
    main()
