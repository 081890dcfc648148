# SPDX-License-Identifier: Apache-2.0
"""What a command means: which script is made smaller, and the line to paste."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.shrink.job_command import job_command


def test_a_shell_script_starts_the_ranks_and_comes_with_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("1 / 0\n")
    (tmp_path / "start.sh").write_text('for index in 0 1; do\n  TF_CONFIG="$index" python ./train.py &\ndone\nwait\n')
    monkeypatch.chdir(tmp_path)
    line = job_command(["bash", "start.sh"])
    assert (line.script, line.ranks, line.words) == (str(tmp_path / "train.py"), None, ())
    assert line.order()["command"] == ["bash", str(tmp_path / "start.sh")]
    assert line.beside() == [str(tmp_path / "start.sh")] and line.line() == "bash start.sh"


def test_a_launcher_that_names_the_script_keeps_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    line = job_command(["env", "-u", "HOME", sys.executable, "train.py", "--lr", "3"])
    assert line.script == str(tmp_path / "train.py") and line.words == ("--lr", "3")
    assert line.smaller(None, ()).line() == f"env -u HOME {Path(sys.executable).name} train.py"


def test_a_command_without_a_script_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"names no \.py file"):
        job_command(["env", "true"])
    with pytest.raises(UserError, match="not found"):
        job_command(["no-such-launcher", "train.py"])


@pytest.mark.parametrize(
    ("command", "line", "alone"),
    [
        (["python3", "-m", "jobs.train", "--lr", "3"], "python -m jobs.train --lr 3", "python train.py --lr 3"),
        (
            ["python3", "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "jobs.train"],
            "torchrun --standalone --nproc-per-node 2 -m jobs.train",
            "torchrun --standalone --nproc-per-node 2 train.py",
        ),
        (["python3", "-m", "jobs"], "python -m jobs", "python jobs.py"),
        (
            ["python3", "-m", "accelerate.commands.launch", "--num_processes", "2", "--cpu", "jobs/train.py"],
            "accelerate launch --num_processes 2 train.py",
            "accelerate launch --num_processes 2 train.py",
        ),
    ],
)
def test_modules_and_launchers(
    command: list[str], line: str, alone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    for name in ("train.py", "__main__.py"):
        (tmp_path / "jobs" / name).write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    found = job_command(command)
    assert (found.line(), found.as_script().line()) == (line, alone)
    assert Path(found.script).is_file()


def test_a_module_that_is_not_the_users_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="module json not found"):
        job_command([sys.executable, "-m", "json"])


def test_accelerate_with_fsdp_is_started_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    found = job_command(f"{sys.executable} -m accelerate.commands.launch --use_fsdp train.py --lr 3".split())
    assert found.by == "given" and found.words == ("--lr", "3")
    assert found.order()["command"][1:4] == ["-m", "accelerate.commands.launch", "--use_fsdp"]


def test_variables_before_a_command_are_set_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    for before in (["env", "XLA_FLAGS=--a=1 --b", "MODE=x"], ["XLA_FLAGS=--a=1 --b", "MODE=x"]):
        line = job_command([*before, sys.executable, "train.py"])
        assert line.variables == (("XLA_FLAGS", "--a=1 --b"), ("MODE", "x")) and line.by == "python"
