# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
from torch.utils.data import Dataset


class Sentences(Dataset):
    def __init__(self, path, length):
        self.tokens = np.memmap(path, dtype=np.int32)
        self.length = length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, i):
        row = torch.from_numpy(self.tokens[i * self.length : (i + 1) * self.length].astype("int64"))
        return row, row[0] % 2
