# SPDX-License-Identifier: Apache-2.0
"""``make demo``, as a user runs it: a real crash in a real two-worker training, explained."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.frameworks("tensorflow")
def test_the_demo_names_the_rank_and_the_line_that_crashed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo.run", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker 1 was ended by SIGSEGV" in done.stdout
    for core in (tmp_path / "run").glob("core*"):
        core.unlink()  # the logs alone must do, and it is large

    command = [sys.executable, "-m", "keepstep", "why", str(tmp_path / "run"), "--json", "--no-kernel-log"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 1, asked.stderr
    root = json.loads(asked.stdout)["findings"][0]
    assert (root["cause"], root["ranks"]) == ("user.native_crash", [1])
    assert "native_op.py" in root["title"]
