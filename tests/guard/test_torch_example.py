# SPDX-License-Identifier: Apache-2.0
"""The example of the guard's page on PyTorch says what the page promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "guard_torch.py"
pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]


def test_the_rank_that_enters_a_barrier_alone_is_named(tmp_path: Path) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, str(EXAMPLE)]
    done = subprocess.run(command, env=kept, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "out of step in collective #" in done.stderr
    assert "barrier on rank 0 but gradients of loss.backward() on rank 1" in done.stderr
