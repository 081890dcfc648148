# SPDX-License-Identifier: Apache-2.0
"""Averages accuracy over all ranks after each epoch.

From: https://github.com/pytorch/examples/issues/1030
Shows: nothing here (needs GPUs)
"""

import os

import torch
import torch.distributed as dist
from torch import nn


class Meter:
    def __init__(self):
        self.right = 0
        self.seen = 0

    def add(self, logits, labels):
        self.right += (logits.argmax(1) == labels).sum().item()
        self.seen += len(labels)

    def over_all_ranks(self):
        counts = torch.tensor([self.right, self.seen], dtype=torch.float64)
        dist.all_reduce(counts)  # BUG COD123
        return (counts[0] / counts[1]).item()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl")
    model = nn.Linear(8, 3).cuda()
    meter = Meter()
    for _ in range(5):
        meter.add(model(torch.randn(16, 8).cuda()), torch.randint(3, (16,)).cuda())
    print(meter.over_all_ranks())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
