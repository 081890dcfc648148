# SPDX-License-Identifier: Apache-2.0
"""The training that benchmarks/goodput_storm.py breaks: DDP with gloo, which saves every ten steps and resumes.

    faulty_job.py STEP:KIND:RANK ...

Each fault strikes once, whichever attempt comes to its step.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

SAVE_EVERY, STEP_S, SLOW_STEPS = 10, 0.05, 15
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
faults = [(int(step), kind, int(whom)) for step, kind, whom in (word.split(":") for word in sys.argv[1:])]
path, first = Path("model.pt"), 0
if path.exists():
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    first = saved["step"]


class Batches(torch.utils.data.IterableDataset[torch.Tensor]):
    def __iter__(self):  # type: ignore[no-untyped-def]
        for step in range(first, faults[-1][0] + 30):
            if slow(step) == "input":
                time.sleep(0.4)
            yield torch.full((32, 64), float(step % 7))


class SlowFile(io.FileIO):
    """On a slow disk."""

    def write(self, data):  # type: ignore[no-untyped-def]
        time.sleep(0.3)
        return super().write(data)


def slow(step: int) -> str:
    """What makes this rank slow for some steps, if anything does."""
    return next((kind for at, kind, whom in faults if whom == rank and at <= step < at + SLOW_STEPS), "")


def strike(kind: str) -> None:
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "exception":
        raise KeyError("label_smoothing")
    elif kind == "abort":
        os.abort()
    elif kind == "exit":
        os._exit(3)
    elif kind == "hang":
        time.sleep(1e6)
    elif kind == "stall":
        time.sleep(20.0)
    elif kind == "pause":
        run = sorted(Path(".keepstep/runs").glob("2*"))[-1]
        subprocess.Popen([sys.executable, "-m", "keepstep", "pause", str(run), "--for", "6"])


for step, batch in enumerate(torch.utils.data.DataLoader(Batches(), batch_size=None), first):
    for at, kind, whom in faults:
        mark = Path(f"struck-{at}")
        if at == step and whom == rank and not mark.exists():
            mark.touch()
            strike(kind)
    until = time.monotonic() + (0.4 if slow(step) == "compute" else 0.0)
    while time.monotonic() < until:
        torch.ones(200, 200) @ torch.ones(200, 200)
    loss = (model(batch) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(STEP_S)
    if (step + 1) % SAVE_EVERY == 0 and rank == 0:
        is_slow = any(kind == "save" and at <= step < at + SAVE_EVERY for at, kind, _ in faults)
        with SlowFile(f"{path}.tmp", "wb") if is_slow else open(f"{path}.tmp", "wb") as stream:
            torch.save({"model": model.state_dict(), "step": step + 1}, stream)
        os.replace(f"{path}.tmp", path)
dist.destroy_process_group()
