# SPDX-License-Identifier: Apache-2.0
"""Two ranks save or load one sharded checkpoint: ``sharded_checkpoint.py save|load`` in the current folder."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
state = {"weight": distribute_tensor(torch.ones(1000, 300), mesh, [Shard(0)])}
if sys.argv[1] == "save":
    dcp.save(state, checkpoint_id="ckpt/step_2")
else:
    try:
        dcp.load(state, checkpoint_id="ckpt/step_2")
        print("loaded", flush=True)
    except Exception as error:
        print(f"refused by {type(error).__name__}: {error}", flush=True)
dist.destroy_process_group()
