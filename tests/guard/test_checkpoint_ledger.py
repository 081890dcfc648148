# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of real frameworks: saves are recorded with no change to the script; damage is said before a load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.store.ledger.checkpoint_files import parts_of
from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import verify
from tests.guard.torch_ranks import Ranks

pytestmark = pytest.mark.frameworks
PROGRAM = Path(__file__).with_name("saves_and_loads.py")
SAVED = {
    "torch": ("plain.pt", "renamed.pt", "streamed.pt", "model.safetensors", "step_2"),
    "tensorflow": ("model.keras", "model.weights.h5", "ckpt-1"),
}


def run(framework: str, what: str, folder: Path, mode: str) -> str:
    env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_COMPANION": "off", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, PROGRAM, framework, what], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def flip_largest(path: Path) -> None:
    """One bit in the middle of the largest file, with its time put back, as a disk would."""
    largest = max(parts_of(path), key=lambda each: each.stat().st_size)
    info = largest.stat()
    with largest.open("r+b") as stream:
        stream.seek(info.st_size // 2)
        byte = stream.read(1)[0]
        stream.seek(info.st_size // 2)
        stream.write(bytes([byte ^ 1]))
    os.utime(largest, ns=(info.st_atime_ns, info.st_mtime_ns))


@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.long)])
def test_saves_are_recorded_and_damage_is_said_before_it_is_loaded(framework: str, tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    run(framework, "save", tmp_path, "on")
    for name in SAVED[framework]:
        assert verify(folder / name).state is State.VERIFIED, name
    assert not [each for each in folder.rglob("*keepstep*") if each.is_dir()], "no script may find a folder of ours"
    assert not list(tmp_path.rglob("*.begun"))

    said = run(framework, "load", tmp_path, "on")
    assert "is damaged" not in said
    assert said.count(": loaded") == len(SAVED[framework])

    for name in SAVED[framework]:
        flip_largest(folder / name)
    warned = run(framework, "load", tmp_path, "on")
    for name in SAVED[framework]:
        assert f"{name} is damaged" in warned
    refused = run(framework, "load", tmp_path, "strict")
    assert refused.count(": OutOfStep") == len(SAVED[framework]), refused[-2000:]


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTEP_LEDGER", "off")
    run("torch", "save", tmp_path, "on")
    assert verify(tmp_path / "ckpt" / "plain.pt").state is State.UNRECORDED


def test_where_one_rank_finds_its_share_damaged_no_rank_loads(tmp_path: Path) -> None:
    program = PROGRAM.with_name("sharded_checkpoint.py")
    assert Ranks(tmp_path, ["save"], script=program).ended() == [0, 0]
    folder = tmp_path / "ckpt" / "step_2"
    assert verify(folder).state is State.VERIFIED
    flip_largest(folder)
    loading = Ranks(tmp_path, ["load"], script=program, KEEPSTEP="strict")
    assert loading.ended() == [0, 0], loading.logs()
    for rank in range(2):
        log = (tmp_path / f"rank{rank}.log").read_text()
        assert "refused by OutOfStep: " in log, log
        assert "is damaged" in log
    assert loading.logs().count("found that the checkpoint") == 1, "one of them heard it from the other"
