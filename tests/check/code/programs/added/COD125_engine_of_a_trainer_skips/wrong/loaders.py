# SPDX-License-Identifier: Apache-2.0
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pairs(Dataset):
    def __init__(self):
        self.blob = torch.load("pairs.pt", map_location="cpu")

    def __len__(self):
        return len(self.blob["input_ids"])

    def __getitem__(self, i):
        return {k: v[i] for k, v in self.blob.items()}


def make_loader(batch):
    data = Pairs()
    return DataLoader(data, batch_size=batch, sampler=DistributedSampler(data), drop_last=True)
