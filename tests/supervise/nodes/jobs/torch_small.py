"""A training of a few steps with torch and gloo, which meets as ``keepstep run`` says."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

limit = datetime.timedelta(seconds=float(sys.argv[1]))
dist.init_process_group("gloo", timeout=limit)
for step in range(5):
    value = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(value)
    print(
        f"step {step}: {value.item():.0f} through {os.environ.get('GLOO_SOCKET_IFNAME', 'any interface')}", flush=True
    )
dist.destroy_process_group()
