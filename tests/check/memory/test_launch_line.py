# SPDX-License-Identifier: Apache-2.0
"""Which script a command line runs, with which arguments, as how many ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keepstep.check.memory.launch_line import understood
from keepstep.errors import UserError


@pytest.fixture(autouse=True)
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "arguments", "ranks"),
    [
        ("python train.py", (), None),
        ("python -u -X dev train.py --lr 3", ("--lr", "3"), None),
        ("train.py -m x", ("-m", "x"), None),
        ("python -m torch.distributed.run --nproc_per_node=4 --nnodes 2 train.py -a", ("-a",), 8),
        ("python -m torch.distributed.run --standalone --nproc-per-node 4 train.py", (), 4),
        ("python -m torch.distributed.run --nnodes 1:4 --nproc-per-node 8 train.py", (), 32),
        ("python -m torch.distributed.run --nproc-per-node gpu train.py", (), None),
        ("python -m accelerate.commands.launch --multi_gpu --num_processes 8 train.py", (), 8),
    ],
)
def test_a_script(line: str, arguments: tuple[str, ...], ranks: int | None) -> None:
    found = understood(line.split())
    assert (found.script, found.arguments, found.ranks) == ("train.py", arguments, ranks)


def test_a_module() -> None:
    assert understood(["python", "-m", "pkg.train", "--x"]).module == "pkg.train"
    found = understood("python -m torch.distributed.run --nproc-per-node 2 -m pkg.train --x".split())
    assert (found.module, found.arguments, found.ranks) == ("pkg.train", ("--x",), 2)


def test_torchrun_is_run_by_the_interpreter_beside_it() -> None:
    found = understood([str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "8", "train.py"])
    assert (found.python, found.ranks) == (str(Path(sys.executable).with_name("python")), 8)


@pytest.mark.parametrize("line", ["", "python", "python -c 1", "python none.py", "mpirun train.py", "absent train.py"])
def test_what_cannot_be_tried_is_said(line: str) -> None:
    with pytest.raises(UserError):
        understood(line.split())
