# SPDX-License-Identifier: Apache-2.0
"""Who is started and with which variables."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest

from keepstep.cluster import understand
from keepstep.errors import UserError
from keepstep.sources.host.ports import free_ports
from keepstep.supervise.start import core_files
from keepstep.supervise.start.core_files import CorePlace
from keepstep.supervise.start.launch import Job, launcher_of, launches, plan, start
from keepstep.supervise.start.spares import Launch


def started(job: Job, tmp_path: Path, **env: str) -> list[Launch]:
    return launches(
        job,
        attempt=2,
        folder=tmp_path / "attempt-2",
        exchange=tmp_path / "exchange",
        token="t",
        env=env,
        more={"MORE": "1"},
    )


def test_every_rank_gets_the_variables_of_every_framework(tmp_path: Path) -> None:
    ranks = started(plan([sys.executable, "-u", "train.py"], ranks=3), tmp_path, KEPT="yes")
    for rank, launch in enumerate(ranks):
        env = launch.env
        assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == (
            str(rank),
            str(rank),
            "3",
            "3",
        )
        config = json.loads(env["TF_CONFIG"])
        assert config["task"] == {"type": "worker", "index": rank} and len(config["cluster"]["worker"]) == 3
        assert env["JAX_COORDINATOR_ADDRESS"] == ranks[0].env["JAX_COORDINATOR_ADDRESS"] == env["KEEPSTEP_COORDINATOR"]
        assert (env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == ("3", str(rank))
        assert (env["KEEPSTEP"], env["KEEPSTEP_RANK"], env["KEEPSTEP_WORLD"], env["KEEPSTEP_ATTEMPT"]) == (
            "on",
            str(rank),
            "3",
            "2",
        )
        assert env["KEEPSTEP_SUPERVISOR"] == str(os.getpid()) and env["KEEPSTEP_DIR"].endswith("attempt-2/guard")
        assert env["KEPT"] == "yes" and env["MORE"] == "1"
        cluster = understand(env)
        assert cluster is not None and cluster.size == 3 and cluster.me == rank
    addresses = json.loads(ranks[0].env["TF_CONFIG"])["cluster"]["worker"]
    ports = {
        *(address.rpartition(":")[2] for address in addresses),
        ranks[0].env["MASTER_PORT"],
        ranks[0].env["KEEPSTEP_COORDINATOR"].rpartition(":")[2],
    }
    assert len(ports) == 5
    again = started(plan([sys.executable, "-u", "train.py"], ranks=3), tmp_path)
    assert again[0].env["MASTER_PORT"] not in ports


def test_roles_of_tensorflow(tmp_path: Path) -> None:
    ranks = started(plan([sys.executable], ranks=2, ps=2, evaluator=True), tmp_path)
    tasks = [json.loads(launch.env["TF_CONFIG"])["task"] for launch in ranks]
    assert [(task["type"], task["index"]) for task in tasks] == [
        ("chief", 0),
        ("worker", 0),
        ("ps", 0),
        ("ps", 1),
        ("evaluator", 0),
    ]
    cluster = json.loads(ranks[4].env["TF_CONFIG"])["cluster"]
    assert {role: len(each) for role, each in cluster.items()} == {"chief": 1, "worker": 1, "ps": 2}
    assert "RANK" in ranks[1].env and "RANK" not in ranks[2].env and ranks[0].env["WORLD_SIZE"] == "2"
    assert [task.role for task in plan([sys.executable], ranks=2, chief=True).members] == ["chief", "worker"]


def test_what_the_user_set_stays(tmp_path: Path) -> None:
    env = started(
        plan([sys.executable], ranks=2), tmp_path, KEEPSTEP="strict", OMP_NUM_THREADS="7", PYTHONUNBUFFERED=""
    )[0].env
    assert (env["KEEPSTEP"], env["OMP_NUM_THREADS"], env["PYTHONUNBUFFERED"]) == ("strict", "7", "")


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (["torchrun", "--nproc-per-node=2", "train.py"], "torchrun"),
        (["/opt/bin/mpirun", "-np", "2", "python", "train.py"], "mpirun"),
        (["srun", "python", "train.py"], "srun"),
        (["accelerate", "launch", "train.py"], "accelerate"),
        (["deepspeed", "train.py"], "deepspeed"),
        (["python3.11", "-u", "-m", "torch.distributed.run", "train.py"], "torch.distributed.run"),
        (["python", "train.py", "-m", "torch.distributed.run"], None),
        (["python", "-m", "pkg.train"], None),
        (["python", "train.py"], None),
        (["bash", "go.sh"], None),
    ],
)
def test_launchers_are_known(command: list[str], launcher: str | None) -> None:
    assert launcher_of(command) == launcher


@pytest.mark.parametrize(
    "command", [["torchrun", "train.py"], [sys.executable, "train.py"], ["bash", "go.sh"], ["./own-launcher"]]
)
def test_without_n_a_command_gets_no_variables_of_a_rank(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    env = started(plan(command, ranks=None), tmp_path, KEPT="yes")[0].env
    assert env.keys() == {
        "KEPT",
        "MORE",
        "KEEPSTEP",
        "KEEPSTEP_DIR",
        "KEEPSTEP_SUPERVISOR",
        "KEEPSTEP_RUN",
        "PYTHONFAULTHANDLER",
    }
    assert env["KEEPSTEP"] == "on"


@pytest.mark.parametrize(
    ("command", "words", "log"),
    [
        (["torchrun", "train.py"], "torchrun", "launcher"),
        ([sys.executable, "-u", "x/train.py", "--lr", "1"], "train.py", "command"),
        ([sys.executable, "-m", "pkg.train"], "pkg.train", "command"),
        (["bash", "go.sh"], "bash", "command"),
    ],
)
def test_the_users_own_command_is_called_by_its_name(
    command: list[str], words: str, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    job = plan(command, ranks=None)
    assert (job.words, job.members[0].name, job.as_given) == (words, log, True)
    assert plan([sys.executable], ranks=1).as_given is False


def test_mistakes_are_told() -> None:
    for command, more, words in (
        ([], {}, "no command to run"),
        (["no-such-program"], {}, "program no-such-program not found"),
        ([sys.executable], {"ranks": 0}, "at least 1"),
    ):
        with pytest.raises(UserError, match=words):
            plan(command, **{"ranks": 1, **more})
    program = "mpirun"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.which", lambda name: f"/bin/{name}")
        with pytest.raises(UserError, match="starts the ranks itself"):
            plan([program, "python"], ranks=2)


def test_ports_are_free_and_out_of_reach_of_outgoing_connections() -> None:
    ports = free_ports(200)
    assert len(set(ports)) == 200
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < low for port in ports)


def test_limits_are_the_childs_and_not_ours(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)
    command = (
        sys.executable,
        "-c",
        "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE)[0], r.getrlimit(r.RLIMIT_CORE))",
    )
    launch = Launch(
        rank=0,
        command=command,
        env={},
        cwd=tmp_path,
        limits=(("RLIMIT_NOFILE", 99), ("RLIMIT_CORE", -1), ("RLIMIT_NONE", 1)),
    )
    with (tmp_path / "out").open("wb") as out:
        assert start(launch, out.fileno(), out.fileno()).wait() == 0
    hard = before[1][1]
    assert (tmp_path / "out").read_text().strip() == f"99 ({hard}, {hard})"
    assert (resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)) == before


@pytest.mark.parametrize(
    ("pattern", "uses_pid", "expected"),
    [
        ("core", False, "/job/core"),
        ("core", True, "/job/core.42*"),
        ("core.%p", True, "/job/core.42"),
        ("/var/cores/%e-%t.%p.100%%", False, "/var/cores/*-*.42.100%"),
    ],
)
def test_where_the_kernel_puts_core_files(pattern: str, uses_pid: bool, expected: str) -> None:
    assert CorePlace(pattern, uses_pid).glob(42, Path("/job")) == expected


def test_why_there_is_no_core_file() -> None:
    assert "coredumpctl dump 42" in (CorePlace("|/usr/lib/systemd/systemd-coredump %P").why_none(42) or "")
    assert "apport" in (CorePlace("|/usr/share/apport/apport -p%p").why_none(42) or "")
    assert "which decides what happens" in (CorePlace("|/opt/take %p").why_none(42) or "")
    assert "empty" in (CorePlace("").why_none(42) or "")
    assert core_files.find(CorePlace("|/opt/take"), [1], Path("/"), 0.0) == {}


def test_a_script_that_is_not_there_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"script train\.py not found"):
        plan([sys.executable, "train.py"], ranks=2)
    (tmp_path / "train.py").touch()
    assert plan([sys.executable, "train.py"], ranks=2).world == 2
