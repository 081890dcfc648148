# SPDX-License-Identifier: Apache-2.0
"""A training that fails under the guard prints its own frames, and none of the guard's hooks."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

LONG = partial(pytest.param, marks=pytest.mark.long)
FUNCTION = """
import keepstep, threading
guard = keepstep.guard.attach()

@guard.step
def train():
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")
"""
TORCH = """
import sys, torch
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        if sys.argv[1] == "loader" and index == 3: raise ValueError("second")
        return torch.ones(4)
class Identity(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.clone())
    @staticmethod
    def backward(ctx, gradient): raise ValueError("second")
model = torch.nn.Linear(4, 1)
for batch in torch.utils.data.DataLoader(Samples(), batch_size=2):
    loss = model(batch).sum()
    if sys.argv[1] == "backward": Identity.apply(loss).backward()
    if sys.argv[1] == "save": torch.save({}, "missing/folder/of.pt")
"""


def said_by(folder: Path, script: str, *words: str, guarded: bool = True) -> str:
    (folder / "train.py").write_text(script)
    environment = {**os.environ, "KEEPSTEP": "on" if guarded else "off", "KEEPSTEP_DIR": str(folder / "guard")}
    command = [sys.executable, "train.py", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.stderr[done.stderr.index("Traceback") :]


@pytest.mark.parametrize("thread", [False, True])
def test_the_guards_frames_are_left_out(tmp_path: Path, thread: bool) -> None:
    call = "threading.Thread(target=train).start()" if thread else "train()"
    said = said_by(tmp_path, FUNCTION + call)
    assert os.path.join("keepstep", "guard") not in said
    assert "KeyError: 'first'" in said and "ValueError: second" in said
    assert said.count("train.py") == (1 if thread else 2) + 1


def test_what_the_guard_raises_itself_says_where(tmp_path: Path) -> None:
    script = "import keepstep\nwith keepstep.guard.attach().phase('x'): pass"
    said = said_by(tmp_path, script)
    assert "train.py" in said and "api.py" in said and "no such phase: 'x'" in said


@pytest.mark.frameworks
@pytest.mark.parametrize("where", ["loader", LONG("backward"), LONG("save")])
def test_torch_prints_what_it_prints_without_the_guard(tmp_path: Path, where: str) -> None:
    guarded, plain = (said_by(tmp_path, TORCH, where, guarded=each) for each in (True, False))
    assert guarded == plain
