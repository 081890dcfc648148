# SPDX-License-Identifier: Apache-2.0
"""`keepstep why slurm:ID` of a real Slurm, after a job that ran `keepstep run`."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstep_lab import slurm as lab_slurm
from keepstep_lab.slurm import CONTROLLER, Slurm
from tests.supervise.nodes.slurm.on_slurm import KEEPSTEP, OVER, SOURCE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(lab_slurm.missing() is not None, reason=str(lab_slurm.missing()))]
FAILS = "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('no such label: 17')\n"


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with contextlib.closing(Slurm(1, tmp_path_factory.mktemp("slurm"))) as made:
        yield made


def test_the_run_folder_of_the_job_is_read_where_its_output_says_nothing(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILS)
    script = tmp_path / "job.sh"
    words = f"{KEEPSTEP} --run-dir kept -n 2 --max-attempts 1 -- {shlex.quote(sys.executable)} train.py"
    lines = ["#!/bin/bash", f"export PYTHONPATH={shlex.quote(str(SOURCE))}", f"{words} > said.txt 2>&1"]
    script.write_text("\n".join(lines) + "\n")
    job = slurm.submit(script, "--output=slurm-%j.out", cwd=tmp_path)
    end = time.monotonic() + 150
    while slurm.state(job) not in OVER:
        assert time.monotonic() < end, slurm.state(job)
        time.sleep(0.2)
    said = (tmp_path / "said.txt").read_text()
    for printed in (said.splitlines()[0] + "\n", said):  # where the ranks' lines are, and in both places
        (tmp_path / f"slurm-{job}.out").write_text(printed)
        report = why(slurm, job)
        first = report["findings"][0]
        assert (first["cause"], first["ranks"]) == ("user.code_exception", [1]), report["findings"]
        assert "no such label: 17" in json.dumps(first)
        assert any(each["what"].startswith("the job's run ") for each in report["coverage"])


def why(slurm: Slurm, job: int) -> Any:
    done = subprocess.run(
        [*slurm.hosts.inside(CONTROLLER), sys.executable, "-m", "keepstep", "why", f"slurm:{job}", "--json"],
        env={**slurm.env, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return json.loads(done.stdout)
