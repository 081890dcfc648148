# SPDX-License-Identifier: Apache-2.0
"""Runs torch_loss_again.py in a process that has loaded PyTorch only: others cannot be copied."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.frameworks("torch")
def test_a_lost_loss_is_computed_once_more(tmp_path: Path) -> None:
    cases = Path(__file__).with_name("torch_loss_again.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}", str(cases)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=cases.parents[2], check=False)
    assert done.returncode == 0 and " passed" in done.stdout and " skipped" not in done.stdout, done.stdout
