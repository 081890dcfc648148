# SPDX-License-Identifier: Apache-2.0
"""`keepstep check` in one process: it reports at once, and waits only for processes that a launcher started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

import keepstep
from keepstep.check import checkup
from keepstep.check.checkup import Checked, CheckRequest, check, judge, place_of
from keepstep.check.meeting.started_together import started_by
from keepstep.check.parts import look
from keepstep.render.terminal import render_terminal

HERE = "127.0.0.1"


def tf_config(workers: list[str], index: int = 0) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})}


TWO = tf_config([f"{HERE}:21811", f"{HERE}:21812"])
TORCH = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": HERE, "MASTER_PORT": "21813"}
JAX = {"JAX_COORDINATOR_ADDRESS": f"{HERE}:21814", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"}


@pytest.fixture
def nobody_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    def meet(*args: Any) -> None:
        raise AssertionError("it waits for others")

    monkeypatch.setattr(checkup, "arrange", meet)


def alone(env: dict[str, str]) -> Checked:
    return check(CheckRequest(parts=("config", "network")), env)


@pytest.mark.parametrize("env", [TWO, TORCH, JAX, tf_config([f"{HERE}:21811", f"{HERE}:21812"], index=1)])
def test_peers_that_nobody_started_are_no_finding(nobody_meets: None, env: dict[str, str]) -> None:
    done = alone(env)
    assert done.report is not None and (done.status, done.report.findings) == (0, ())
    (line,) = [each for each in done.report.coverage if each.what == "the other processes"]
    assert "not asked" in line.why and "--wait" in line.why


OWN = tf_config([f"{socket.gethostname()}:21811", f"{socket.gethostname()}:21812"])


@pytest.mark.parametrize("env", [TWO, TORCH, JAX, OWN, tf_config(["[::1]:21811", "localhost:21812"])])
def test_that_every_task_is_meant_to_be_here_is_said_first(nobody_meets: None, env: dict[str, str]) -> None:
    done = alone(env)
    assert done.report is not None and (done.status, done.report.findings) == (0, ())
    (note,) = [each for each in done.report.notes if each.first]
    assert "right only if all of them run here" in note.says
    assert render_terminal(done.report).startswith("note")


@pytest.mark.parametrize(
    "nodes",
    [
        {"LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2"},
        {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_JOB_NUM_NODES": "2"},
    ],
)
@pytest.mark.parametrize("env", [TWO, TORCH, JAX])
def test_a_launcher_that_has_one_node_says_that_the_loopback_is_right(
    nobody_meets: None, env: dict[str, str], nodes: dict[str, str]
) -> None:
    done = alone({**env, **nodes})
    assert done.report is not None and (done.status, done.report.findings) == (0, ())
    assert not [each for each in done.report.notes if each.first]


SEVERAL_NODES = {
    "Slurm, in the batch script": {"SLURM_JOB_NUM_NODES": "2"},
    "srun": {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"},
    "torchrun": {"GROUP_WORLD_SIZE": "2"},
    "ranks per node": {"LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "2"},
    "Kubeflow": {"PET_NNODES": "2"},
    "mpirun": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
    "Intel MPI": {"PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "PMI_RANK": "0"},
    "Horovod": {"HOROVOD_CROSS_SIZE": "2"},
    "Kubernetes": {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "1"},
    "Kubernetes, by name": {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-0", "REPLICAS": "2"},
    "Cloud TPU": {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2"},
    "LSF": {"LSB_MCPU_HOSTS": "node1 4 node2 4"},
    "PBS": {"PBS_NUM_NODES": "2"},
}


@pytest.mark.parametrize("launcher", SEVERAL_NODES)
@pytest.mark.parametrize("env", [TWO, TORCH, JAX], ids=["tensorflow", "torch", "jax"])
def test_the_loopback_contradicts_a_launcher_of_several_nodes(env: dict[str, str], launcher: str) -> None:
    report = judge(look(place_of(CheckRequest(), {**env, **SEVERAL_NODES[launcher]}), ["config"]))
    (found,) = [each for each in report.findings if each.rule == "CFG113"]  # the pods' names do not resolve here either
    assert "names 2 " in found.title and found.cause.value == "config.localhost_address"
    assert not [each for each in report.notes if each.first]


def test_hosts_that_were_given_contradict_the_loopback() -> None:
    report = judge(look(place_of(CheckRequest(member=(0, ("node-0", "node-1"))), TWO), ["config"]))
    assert "CFG113" in [each.rule for each in report.findings]


@pytest.mark.parametrize(
    ("env", "rule"),
    [
        (tf_config([f"{HERE}:21811", f"{HERE}:21812"], index=5), "CFG103"),
        (tf_config([f"{HERE}:21811", f"{HERE}:21811"]), "CFG105"),
        (tf_config([f"{HERE}:21811", "10.255.0.9:21812"]), "CFG113"),
        ({**TORCH, "RANK": "7"}, "CFG107"),
    ],
)
def test_what_one_process_can_tell_is_told(nobody_meets: None, env: dict[str, str], rule: str) -> None:
    done = alone(env)
    assert done.report is not None and rule in [each.rule for each in done.report.findings]


@pytest.mark.parametrize(
    ("env", "launcher"),
    [
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, "srun"),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "1"}, None),
        ({"SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpirun"),
        ({"TORCHELASTIC_RUN_ID": "none", **TORCH}, "torchrun"),
        ({"KEEPSTEP_WORLD": "2", "KEEPSTEP_RANK": "0"}, "keepstep run"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"),
        (TORCH, None),
        (TWO, None),
        ({"PMI_SIZE": "many"}, None),
    ],
)
def test_who_started_several_of_this(env: dict[str, str], launcher: str | None) -> None:
    assert started_by(env) == launcher


@pytest.mark.parametrize("words", [("--wait", "0.2", "network"), ("network", "--wait=0.2")])
def test_whoever_asks_for_it_waits(words: tuple[str, ...]) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI", "KEEPSTEP"))}
    command = [sys.executable, "-m", "keepstep", "check", *words, "--json"]
    done = subprocess.run(command, env={**clean, **TORCH}, capture_output=True, text=True, timeout=120)
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["rule"], finding["ranks"]) == (1, "CFG113", [1])
    assert finding["confidence"] == "hypothesis"


def test_a_part_after_wait_is_a_part() -> None:
    from keepstep.cli.parser import _with_seconds

    assert _with_seconds(["check", "--wait", "network"]) == ["check", "--wait=30", "network"]
    assert _with_seconds(["check", "--wait", "5", "network"]) == ["check", "--wait", "5", "network"]
    assert _with_seconds(["check", "network", "--wait"]) == ["check", "network", "--wait"]


def test_python_can_ask_for_parts() -> None:
    report = keepstep.check.check("env")
    assert report is not None and report.findings == ()
    with pytest.raises(ValueError, match="no such part: nothing; the parts are config"):
        keepstep.check.check("nothing")
