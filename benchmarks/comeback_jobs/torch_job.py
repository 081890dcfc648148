# SPDX-License-Identifier: Apache-2.0
"""A two-layer model under DistributedDataParallel with gloo."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

folder, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first, path = 0, f"{folder}/model.pt"
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    first = saved["step"]
try:
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

    monitor = RankMonitorClient()
    monitor.init_workload_monitoring()
except Exception:  # not under ft_launcher
    monitor = None
with open(f"{folder}/steps-{rank}", "a", buffering=1) as told:
    for step in range(first, steps):
        if rank == 1 and os.path.exists(f"{folder}/sleep"):
            os.remove(f"{folder}/sleep")
            time.sleep(3600)
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
        told.write(f"{time.time()} {os.getpid()} {step}\n")
        if monitor is not None:
            monitor.send_heartbeat()
        if rank == 0 and step % 20 == 0:
            torch.save({"model": model.state_dict(), "step": step + 1}, path + ".tmp")
            os.replace(path + ".tmp", path)
            print(f"step {step}", flush=True)
        time.sleep(0.02)
