# SPDX-License-Identifier: Apache-2.0
"""One rank writes the weights after each epoch."""

import os
import tempfile

import torch
import torch.distributed as dist
from saver import Saver
from torch import nn


def main():
    dist.init_process_group("gloo")
    own = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    with tempfile.TemporaryDirectory() as folder:
        saver = Saver(os.path.join(folder, "weights.pt"), own == 0)
        for _ in range(3):
            saver.save(model)
            value = model.weight.detach().sum()
            dist.all_reduce(value)
    dist.destroy_process_group()


main()
