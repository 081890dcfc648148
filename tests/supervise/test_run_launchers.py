# SPDX-License-Identifier: Apache-2.0
"""`keepstep run` in front of the launchers that people have, for real; each is left out where it is not installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lazy_framework import need_framework
from tests.supervise.starting import Running, wait_for
from tests.supervise.test_run_ends import alive, pids_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SLURM_CONF = os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf")
STEPS = """
import os, signal, sys, time, keepstep
names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
rank = int(next(os.environ[name] for name in names if name in os.environ))
open(f"pid-{rank}", "w").write(str(os.getpid()))
for step in keepstep.guard.attach().steps(range(10_000 if sys.argv[-1] == "long" else 40)):
    if step == 20 and rank == 1 and sys.argv[-1] == "raise": raise ValueError("batch 20 is bad")
    if step == 20 and rank == 1 and sys.argv[-1] == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(0.05)
"""


def _mpirun() -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "-np", "2", sys.executable]


LAUNCHERS = {
    "mpirun": _mpirun(),
    "srun": ["srun", "-n", "2", "--overcommit", sys.executable],
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"],
    "accelerate": [
        "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
        "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
    ],
    "deepspeed": ["deepspeed", "--num_gpus", "2", "--no_local_rank", "--master_port", "29781"],
}  # fmt: skip


@pytest.fixture(params=LAUNCHERS)
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    name = str(request.param)
    if name == "torchrun":
        need_framework("torch")
    elif shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    if name == "srun":
        monkeypatch.setenv("SLURM_CONF", SLURM_CONF)
        try:
            subprocess.run(["sinfo", "-h"], capture_output=True, timeout=5, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip("there is no Slurm cluster to run on")
    return LAUNCHERS[name]


def test_ranks_of_a_launcher_announce_themselves(tmp_path: Path, launcher: list[str]) -> None:
    run = Running(tmp_path, script=STEPS, command=[*launcher, "train.py"])
    assert run.finish() == 0, run.err
    boxes = sorted(path.name.split("-")[0] for path in run.run.glob("attempt-0/guard/*.box"))
    assert boxes == ["rank0", "rank1"]
    measured = [
        json.loads(line)["ranks"] for line in (run.run / "attempt-0" / "metrics.jsonl").read_text().splitlines()
    ]
    assert any({"0", "1"} <= ranks.keys() and ranks["1"]["own"] > 0 for ranks in measured)
    assert not any(map(alive, pids_in(tmp_path)))


@pytest.mark.parametrize("fault", ["raise", "crash"])
def test_the_rank_that_failed_under_a_launcher_is_named(tmp_path: Path, launcher: list[str], fault: str) -> None:
    run = Running(tmp_path, script=STEPS, command=[*launcher, "train.py", fault])
    assert run.finish() not in (0, 2), run.err
    found = json.loads((run.run / "report.json").read_text())["findings"][0]
    assert found["ranks"] == [1], run.out
    assert found["cause"] in (
        "user.code_exception" if fault == "raise" else "user.native_crash",
        "framework.bug_segfault",
    )
    assert "only with --max-attempts" in run.err
    assert not any(map(alive, pids_in(tmp_path)))


def test_ctrl_c_ends_all_ranks_of_a_launcher(tmp_path: Path, launcher: list[str]) -> None:
    run = Running(tmp_path, script=STEPS, command=[*launcher, "train.py", "long"])
    pids = wait_for(lambda: found if len(found := pids_in(tmp_path)) == 2 else None)
    wait_for(lambda: len(list(run.run.glob("attempt-0/guard/*.box"))) == 2)
    run.process.send_signal(signal.SIGINT)
    assert run.finish() == 130
    assert not any(map(alive, pids))
