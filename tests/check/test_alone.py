# SPDX-License-Identifier: Apache-2.0
"""`keepstep check` in one process: it reports at once, and waits only for processes that a launcher started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import keepstep
from keepstep.check import checkup
from keepstep.check.checkup import Checked, CheckRequest, check
from keepstep.check.meeting.started_together import started_by

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
    assert (done.returncode, finding["rule"], finding["ranks"]) == (1, "NET101", [1])


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
