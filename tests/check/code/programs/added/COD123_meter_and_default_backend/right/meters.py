# SPDX-License-Identifier: Apache-2.0
import torch
import torch.distributed as dist


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def synchronize(self):
        packed = torch.tensor([self.sum, self.count], dtype=torch.float64, device="cuda")
        dist.all_reduce(packed)
        self.sum, self.count = packed.tolist()

    @property
    def value(self):
        return self.sum / max(self.count, 1)
