# SPDX-License-Identifier: Apache-2.0
"""Trains on pictures and adds up meters over the ranks."""

import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import CIFAR10
from torchvision.models import resnet18
from torchvision.transforms import ToTensor

from meters import AverageMeter
from setup_dist import setup


def main():
    local = setup()
    data = CIFAR10("data", transform=ToTensor())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 128, sampler=sampler)
    net = DDP(resnet18(num_classes=10).cuda(), device_ids=[local])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    meters = {name: AverageMeter(name) for name in ("loss", "acc")}
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in loader:
            y = y.cuda()
            out = net(x.cuda())
            loss = torch.nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meters["loss"].update(loss.item(), len(y))
            meters["acc"].update((out.argmax(1) == y).float().mean().item(), len(y))
        for meter in meters.values():
            meter.synchronize()


main()
