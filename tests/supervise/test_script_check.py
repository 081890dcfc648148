# SPDX-License-Identifier: Apache-2.0
"""`keepstep run` reads the script beside the run, says what it finds, and lets the run go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.supervise.start.script_check import CodeLook, script_of, words
from tests.supervise.starting import OURS, wait_for

WRONG = """
import os, time
def train():
    import torch.distributed as dist
    if dist.get_rank() == 0:
        dist.barrier()
while not os.path.exists("go"):
    time.sleep(0.02)
print("done", flush=True)
"""


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "keepstep", "run", "--no-spares", *options, "-n", "2", "--", sys.executable, "train.py"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in OURS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def test_a_bug_in_the_script_is_told_while_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    running = start(tmp_path)
    assert running.stdout is not None
    heard = []
    for line in running.stdout:
        heard.append(line)
        if "keepstep check code train.py" in line:
            (tmp_path / "go").touch()
    assert running.wait() == 0
    assert any("train.py:6: distributed.barrier is issued by some ranks only (COD001)" in line for line in heard)
    assert [line for line in heard if line.endswith("done\n")] != []


def test_without_the_check_nothing_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    (tmp_path / "go").touch()
    out, _ = start(tmp_path, "--no-check").communicate()
    assert "done" in out
    assert "check code" not in out


def test_a_run_that_ends_first_ends_the_look(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    said: list[str] = []
    look = CodeLook(Path("train.py"), tmp_path, said.append)
    look.close()
    assert look._process.returncode is not None
    assert not look._waits.is_alive()
    assert said == []


def test_a_script_that_cannot_be_read_is_no_news(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def (:\n")
    said: list[str] = []
    look = CodeLook(Path("train.py"), tmp_path, said.append)
    wait_for(lambda: not look._waits.is_alive())
    assert said == []


def test_of_many_findings_the_first_are_told_and_the_rest_counted() -> None:
    each = {"rule": "COD001", "title": "wrong", "evidence": [{"source": "train.py", "line": 3}]}
    told = list(words({"findings": [each] * 5}, Path("my train.py")))
    assert told == [
        *["check code: train.py:3: wrong (COD001)"] * 3,
        "check code: 2 more, and why: `keepstep check code 'my train.py'`",
    ]
    assert list(words({"findings": []}, Path("train.py"))) == []


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --lr 1", "train.py"),
        ("python -m pkg.run --config train.py", "pkg/run.py"),
        ("python -m pkg", "pkg/__main__.py"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train.py"),
        ("torchrun --nproc-per-node 2 -m pkg.run", "pkg/run.py"),
        ("python gone.py", None),
        ("bash train.sh", None),
        ("python -m", None),
    ],
)
def test_the_script_of_a_command_line(command: str, script: str | None, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name in ("train.py", "pkg/run.py", "pkg/__main__.py"):
        (tmp_path / name).touch()
    assert script_of(tuple(command.split()), tmp_path) == (Path(script) if script else None)
