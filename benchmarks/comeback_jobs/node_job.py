# SPDX-License-Identifier: Apache-2.0
"""A training with DDP and gloo that goes on until it is ended, the same under every launcher.

Each rank writes down when it ended a step, with its process and the size of the world.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist


def train(folder: str) -> None:
    """Until the process is ended."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with open(f"{folder}/steps-{os.uname().nodename}-{os.getpid()}", "a", buffering=1) as told:
        while True:
            optimizer.zero_grad()
            model(torch.randn(32, 64)).square().mean().backward()
            optimizer.step()
            told.write(f"{time.monotonic()} {dist.get_world_size()}\n")
            time.sleep(0.02)


if __name__ == "__main__":
    train(sys.argv[1])
