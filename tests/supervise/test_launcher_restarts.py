# SPDX-License-Identifier: Apache-2.0
"""A launcher that restarts its ranks by itself: the run ends well, and the report says that it was not smooth."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import os
import sys

import torch

print(torch.__version__, flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    sys.exit(3)
"""


@pytest.mark.frameworks
@pytest.mark.slow
def test_ranks_that_torchrun_restarted_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    run = subprocess.run(
        [sys.executable, "-m", "keepstep", "run", "--run-dir", "runs", "--", *torchrun, "train.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    folder = next((tmp_path / "runs").iterdir())
    asked = subprocess.run(
        [sys.executable, "-m", "keepstep", "why", str(folder), "--json"], capture_output=True, text=True, timeout=300
    )
    found = json.loads(asked.stdout)["findings"]
    assert [(each["rule"], each["ranks"]) for each in found] == [("WRK005", [1])]
    assert "exit code 3" in found[0]["title"]
