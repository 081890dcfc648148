# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of sentences with a step that is an object."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from corpus import Sentences
from steps import Stepper


def build(cfg):
    net = nn.Sequential(nn.Embedding(32000, 256), nn.Flatten(), nn.LazyLinear(2)).cuda()
    net(torch.zeros(1, cfg["length"], dtype=torch.long, device="cuda"))
    return DistributedDataParallel(net, device_ids=[cfg["gpu"]])


def main():
    dist.init_process_group("nccl")
    cfg = {"gpu": int(os.environ["LOCAL_RANK"]), "length": 128, "epochs": 3}
    torch.cuda.set_device(cfg["gpu"])
    data = Sentences("train.bin", cfg["length"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=2)
    net = build(cfg)
    step = Stepper(net, torch.optim.AdamW(net.parameters()), nn.CrossEntropyLoss())
    for epoch in range(cfg["epochs"]):
        sampler.set_epoch(epoch)
        for batch in loader:
            step(batch)


if __name__ == "__main__":
    main()
