# SPDX-License-Identifier: Apache-2.0
"""A limit that asks for a pause: all ranks wait after the same step, and go on when it is over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.analyze.goodput import goodput
from keepstep.signals.blackbox import BoxPhase
from keepstep.signals.goodput import Bucket
from keepstep.store import pause_request
from keepstep.supervise.watch.vitals import Boxes
from tests.supervise.starting import Running, wait_for, why

pytestmark = pytest.mark.frameworks
SCRIPT = """
import os, threading, time
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
held = []

def let_go():
    while not os.path.exists("release"):
        time.sleep(0.05)
    while held:
        held.pop().close()

threading.Thread(target=let_go, daemon=True).start()
for step in range(60):
    loss = (model(torch.full((4, 8), float(rank + 1 + step % 3))) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", step, loss.item(), flush=True)
    time.sleep(0.1)
    if step == 5 and rank == 1 and not os.path.exists("release"):
        held += [open(os.devnull) for _ in range(200)]
"""
LIMIT = """
[[threshold]]
reading = "files"
above = 150
for = "0s"
do = ["pause"]
"""
HELD_S = 8.0
"""Longer than ranks may be idle before the watch looks at them."""


def losses(run: Running) -> list[str]:
    return [line for rank in (0, 1) for line in run.log(rank).splitlines() if line.startswith("loss")]


def paused(run: Running) -> list[int]:
    """After which step each rank waits; none unless both do."""
    boxes = Boxes(run.run / "attempt-0" / "guard")
    boxes.refresh(now=True)
    doings = [box.doing() for box in boxes.open.values()]
    boxes.close()
    found = [doing.steps for doing in doings if doing is not None and doing.phase is BoxPhase.RETRY]
    return found if len(found) == 2 else []


def start(folder: Path, limit: str, *, released: bool = False) -> Running:
    folder.mkdir()
    (folder / "limits.toml").write_text(limit)
    if released:
        (folder / "release").touch()
    return Running(folder, "-n", "2", "--no-spares", "--config", "limits.toml", script=SCRIPT)


def test_all_ranks_pause_after_one_step_until_the_value_is_well_again(tmp_path: Path) -> None:
    run = start(tmp_path / "paused", LIMIT)
    steps = wait_for(lambda: paused(run))
    assert steps[0] == steps[1]
    time.sleep(HELD_S)
    assert paused(run) == steps
    (run.folder / "release").touch()
    assert run.finish() == 0, run.err
    told = "above 150 files; asking all ranks to pause after the same step"
    assert run.err.count(told) == 1 and run.err.index(told) < run.err.index(f"all ranks pause after step {steps[0]}, f")
    assert "all ranks go on, after" in run.err and "no progress" not in run.err and run.manifest["state"] == "finished"
    assert f"all ranks pause after step {steps[0]}" in why(run.run)
    found = goodput(run.run)
    assert found.buckets[Bucket.PAUSED] > HELD_S
    (reason,) = {reason for bucket, reason in found.lost if bucket is Bucket.PAUSED}
    assert reason.startswith("rank 1, open file descriptors") and reason.endswith("above 150 files"), reason
    without = start(tmp_path / "without", "", released=True)
    assert without.finish() == 0, without.err
    assert losses(run) == losses(without) and len(losses(run)) == 120


@pytest.mark.long
def test_a_pause_is_over_in_time(tmp_path: Path) -> None:
    run = start(tmp_path / "bounded", LIMIT + 'pause = "2s"\n')
    assert run.finish() == 0, run.err
    assert "the pause has lasted 2.0 s; the ranks go on" in run.err and "all ranks go on, after" in run.err
    assert len(losses(run)) == 120 and pause_request.asked(run.run / "attempt-0" / "guard") is None


def keepstep(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keepstep", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "80"})


def test_a_user_pauses_a_run_and_lets_it_go_on(tmp_path: Path) -> None:
    run = start(tmp_path / "by_hand", "", released=True)
    place = str(run.run)
    wait_for(lambda: "loss 3 " in run.log(0))
    done = keepstep("pause", place)
    steps = paused(run)
    assert done.returncode == 0 and len(steps) == 2 and steps[0] == steps[1], done.stderr
    assert done.stdout.startswith(f"2 ranks paused after step {steps[0]}, for 5 min at most\n"), done.stdout
    assert (again := keepstep("pause", place)).returncode == 2 and "has been asked to pause already" in again.stderr
    assert paused(run) == steps
    assert keepstep("resume", place).stdout == "2 ranks may go on\n"
    assert (again := keepstep("resume", place)).returncode == 2 and "has not been asked to pause" in again.stderr
    assert run.finish() == 0, run.err
    assert "(`keepstep pause`); asking all ranks" in run.err and "all ranks go on, after" in run.err
    assert len(losses(run)) == 120 and keepstep("resume", place).returncode == 2
