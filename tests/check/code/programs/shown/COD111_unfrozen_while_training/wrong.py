"""Trains the head of a detector first and its box layers from a certain iteration on.

From: https://github.com/facebookresearch/detectron2/issues/2486
Shows: differs 2 ranks torch (weights)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.box = nn.Linear(11, 22)
        self.out = nn.Linear(22, 4)

    def freeze_box(self):
        for parameter in self.box.parameters():
            parameter.requires_grad = False

    def unfreeze_box(self):
        for parameter in self.box.parameters():
            parameter.requires_grad = True

    def forward(self, x):
        return self.out(torch.relu(self.box(x)))


def batch(generator):
    x = torch.randn(8, 11, generator=generator)
    return x, x[:, :4] * 0.5


def main(iterations=40, unfreeze_at=20):
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    detector = Detector()
    optimizer = torch.optim.SGD(detector.parameters(), lr=0.05)
    detector.freeze_box()
    model = DistributedDataParallel(detector)
    generator = torch.Generator().manual_seed(50 + dist.get_rank())
    for iteration in range(iterations):
        if iteration == unfreeze_at:
            model.module.unfreeze_box()  # BUG COD111
        x, y = batch(generator)
        loss = nn.functional.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"{iterations} iterations")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
