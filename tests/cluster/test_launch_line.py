# SPDX-License-Identifier: Apache-2.0
"""Which script a command line runs, with which arguments, as how many ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keepstep.cli.parser import run
from keepstep.cluster.launch_line import understood
from keepstep.errors import UserError


@pytest.fixture(autouse=True)
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "four.yaml").write_text(
        "distributed_type: MULTI_GPU\nmixed_precision: 'bf16'\nnum_processes: 4  # a host\n"
    )
    (tmp_path / "sharded.yaml").write_text("distributed_type: FSDP\nnum_processes: 4\n")
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
        (
            "python -m accelerate.commands.launch --config_file four.yaml train.py --config_file x",
            ("--config_file", "x"),
            4,
        ),
        ("python -m accelerate.commands.launch --config_file=four.yaml --num_processes 2 train.py", (), 2),
        ("uv run python train.py -a", ("-a",), None),
        ("env SIZE=3 nohup python train.py", (), None),
    ],
)
def test_a_script(line: str, arguments: tuple[str, ...], ranks: int | None) -> None:
    found = understood(line.split())
    assert (found.script, found.arguments, found.ranks) == ("train.py", arguments, ranks)


def test_a_module() -> None:
    assert understood(["python", "-m", "pkg.train", "--x"]).module == "pkg.train"
    found = understood("python -m torch.distributed.run --nproc-per-node 2 -m pkg.train --x".split())
    assert (found.module, found.arguments, found.ranks) == ("pkg.train", ("--x",), 2)


def test_a_number_of_ranks_that_is_left_to_the_host_is_said() -> None:
    found = understood("python -m torch.distributed.run --nproc-per-node=gpu train.py".split())
    assert (found.ranks, found.ranks_by_host) == (None, "--nproc-per-node gpu")
    assert not understood("python -m torch.distributed.run --nproc-per-node 2 train.py".split()).ranks_by_host


def test_torchrun_is_run_by_the_interpreter_beside_it() -> None:
    found = understood([str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "8", "train.py"])
    assert (found.python, found.ranks) == (str(Path(sys.executable).with_name("python")), 8)


def test_what_accelerate_and_env_say_besides() -> None:
    found = understood("python -m accelerate.commands.launch --config_file four.yaml train.py".split())
    assert found.precision == "bf16"
    assert understood(["env", "A=1", "B=x y", "python", "train.py"]).variables == (("A", "1"), ("B", "x y"))


@pytest.mark.parametrize("option", ["--use_fsdp", "--config_file sharded.yaml"])
def test_accelerate_that_shards(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert understood(f"python -m accelerate.commands.launch {option} train.py".split()).shards
    words = f"check memory --device h200 -- python -m accelerate.commands.launch {option} train.py"
    assert run(words.split()) == 2
    assert "what accelerate would shard" in capsys.readouterr().err


def test_a_command_that_a_package_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tune"
    program.write_text(f"#!{sys.executable}\nimport train\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = understood(["tune", "--lr", "3"])
    assert (found.python, found.script, found.arguments) == (sys.executable, str(program), ("--lr", "3"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "no command"),
        ("python", "no script"),
        ("python -c 1", "no script"),
        ("python none.py", "not found"),
        ("mpirun -np 4 python train.py", "options of `mpirun`"),
        ("srun -n 4 python train.py", "options of `srun`"),
        ("deepspeed --num_gpus 4 train.py", "DeepSpeed"),
        ("python -m accelerate.commands.launch --config_file none.yaml train.py", "cannot read"),
        ("bash train.sh", "shell script"),
        ("env -i python train.py", "option -i"),
        ("cat train.py", "`cat` is not"),
        ("absent train.py", "not found"),
    ],
)
def test_what_cannot_be_tried_is_said(line: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        understood(line.split())
