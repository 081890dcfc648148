# SPDX-License-Identifier: Apache-2.0
"""A two-layer model under DistributedDataParallel with gloo. It saves now and then and resumes; its batches follow from
the step, so it ends with the same weights however often it was restarted.

    torch_job.py FOLDER STEPS [--calls]

A loss that is not finite ends the rank; with --calls all ranks compute the step again (`keepstep.skip_if`), and SIGTERM
makes all of them save after the same step (`keepstep.should_stop`).
"""

from __future__ import annotations

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

SAVE_EVERY, STEP_S, TIMEOUT_S = 50, 0.05, 30
folder, steps, calls = sys.argv[1], int(sys.argv[2]), "--calls" in sys.argv
if calls:
    import keepstep

torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))  # a start may take long on a busy machine
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)),
    process_group=dist.new_group(timeout=datetime.timedelta(seconds=TIMEOUT_S)),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
first, path = 0, f"{folder}/model.pt"
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    first = saved["step"]


def batch_of(step: int, of_rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(32, 64, generator=torch.Generator().manual_seed(step * 1000 + of_rank))
    return inputs, inputs[:, :8].tanh()


def loss_of(step: int) -> torch.Tensor:
    inputs, wanted = batch_of(step, rank)
    if rank == 1 and os.path.exists(f"{folder}/nan"):
        os.remove(f"{folder}/nan")  # once: a bit that flipped, not a bad batch
        inputs = inputs * float("nan")
    return torch.nn.functional.mse_loss(model(inputs), wanted)


def save(done: int) -> None:
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": done}, path + ".tmp")
        os.replace(path + ".tmp", path)


with open(f"{folder}/steps-{rank}", "a", buffering=1) as told:
    for step in range(first, steps):
        began = time.monotonic()
        loss = loss_of(step)
        while calls and keepstep.skip_if(not loss.isfinite(), step):
            loss = loss_of(step)
        if not loss.isfinite():
            raise FloatingPointError(f"the loss of step {step} is {loss.item()}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(STEP_S)
        told.write(f"{time.time()} {os.getpid()} {step} {time.monotonic() - began}\n")
        if (step + 1) % SAVE_EVERY == 0:
            save(step + 1)
        if calls and keepstep.should_stop():
            save(step + 1)
            sys.exit(143)
inputs, wanted = batch_of(-1, 0)
with torch.no_grad():
    print(f"final loss {torch.nn.functional.mse_loss(model.module(inputs), wanted).item():.9f}", flush=True)
dist.barrier()
dist.destroy_process_group()
