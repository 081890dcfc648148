# SPDX-License-Identifier: Apache-2.0
"""What two ranks ran for the attempts in `attempts`, under `keepstep run -n 2 --max-attempts 1`."""

import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

fault = os.environ.get("FAULT", "healthy")
rank = int(os.environ["RANK"])
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(int(os.environ.get("STEPS", "60"))):
    x = torch.randn(16, 8)
    if rank == 1 and step == 30:
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "asleep":
            time.sleep(3600)
        if fault == "mismatch":
            dist.all_gather([torch.zeros(4) for _ in range(2)], torch.zeros(4))
        if fault == "raised":
            raise RuntimeError("a bad sample in shard 7")
    if fault == "nan" and rank == 1 and step >= 30:
        x = x * float("nan")
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    time.sleep(0.05)
dist.destroy_process_group()
print("finished", flush=True)
