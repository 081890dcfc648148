# SPDX-License-Identifier: Apache-2.0
"""``make demo``, as a user runs it: a real training is checked, crashes, is explained, comes back and finishes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.frameworks("tensorflow")
def test_the_demo_tells_the_whole_story(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo.run", str(tmp_path / "demo")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("2 processes are set up as worker:0", "decision: restart", "resumed from step-", "worker 1: finished"):
        assert part in done.stdout + done.stderr, done.stdout + done.stderr

    (attempt,) = (tmp_path / "demo" / "runs").glob("*-demo/attempt-0")
    for core in (attempt / "cores").glob("*"):
        core.resolve().unlink()  # the logs alone must do, and it is large
        core.unlink(missing_ok=True)
    command = [sys.executable, "-m", "keepstep", "why", str(attempt), "--json", "--no-kernel-log"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 1, asked.stderr
    root = json.loads(asked.stdout)["findings"][0]
    assert (root["cause"], root["ranks"]) == ("user.native_crash", [1])
    assert "native_op.py" in root["title"]
