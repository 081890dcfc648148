# SPDX-License-Identifier: Apache-2.0
"""Saves a sharded checkpoint into a folder named by the time.

From: https://github.com/TensorAuto/OpenTau/pull/396
Shows: nothing here (depends on the clock)
"""

import os
from datetime import datetime

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save(model, folder):
    dcp.save({"model": model.state_dict()}, checkpoint_id=os.path.join(folder, "last"))  # BUG COD129


def main():
    dist.init_process_group("gloo")
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder = os.path.join("runs", stamp)
    model = DistributedDataParallel(nn.Linear(8, 1))
    model(torch.randn(4, 8)).mean().backward()
    save(model, folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
