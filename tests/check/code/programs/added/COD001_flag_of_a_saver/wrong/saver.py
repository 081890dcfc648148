# SPDX-License-Identifier: Apache-2.0
"""Writes the weights, if it is told to."""

import torch
import torch.distributed as dist


class Saver:
    def __init__(self, path, writes):
        self.path = path
        self.writes = writes

    def save(self, model):
        if self.writes:
            torch.save(model.state_dict(), self.path)
            dist.barrier()  # BUG COD001
