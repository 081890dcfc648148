# SPDX-License-Identifier: Apache-2.0
"""Validates with a metric of torchmetrics, which adds up over the ranks when it is computed.

From: https://github.com/Lightning-AI/torchmetrics/issues/938
Shows: nothing here (needs torchmetrics)
"""

import torch
import torch.distributed as dist
import torchmetrics
from torch import nn


class Evaluator:
    def __init__(self, model, classes):
        self.model = model
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=classes)

    @torch.no_grad()
    def run(self, loader):
        self.model.eval()
        for x, y in loader:
            self.accuracy.update(self.model(x).argmax(1), y)
        if dist.get_rank() == 0:
            value = self.accuracy.compute()  # BUG COD001
            print(f"accuracy {value:.3f}")
        self.accuracy.reset()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(4)]
    Evaluator(nn.Linear(4, 3), 3).run(data[rank :: dist.get_world_size()])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
