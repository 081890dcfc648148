# SPDX-License-Identifier: Apache-2.0
import torch
from torch.utils.data import Dataset

from features import Encoder


class Encoded(Dataset):
    def __init__(self, path):
        self.images = torch.load(path, map_location="cpu")
        self.encoder = Encoder("cpu")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.encoder.encode(self.images[i])
