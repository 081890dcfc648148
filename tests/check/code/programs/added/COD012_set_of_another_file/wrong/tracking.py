# SPDX-License-Identifier: Apache-2.0
import torch
import torch.distributed as dist

from names import TRACKED


class Tracker:
    def __init__(self, device):
        self.device = device
        self.values = {name: 0.0 for name in TRACKED}

    def add(self, **values):
        for name, value in values.items():
            self.values[name] += value

    def reduced(self):
        out = {}
        for name in TRACKED:
            total = torch.tensor(self.values[name], device=self.device)
            dist.all_reduce(total)  # BUG COD012
            out[name] = total.item()
        return out
