# SPDX-License-Identifier: Apache-2.0
"""The example of the guard's page on PyTorch says what the page promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "guard_torch.py"
pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]


@pytest.mark.long
def test_the_rank_that_enters_a_barrier_alone_is_named(tmp_path: Path) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, str(EXAMPLE)]
    done = subprocess.run(command, env=kept, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "out of step in collective #" in done.stderr
    at = {
        words: number
        for number, line in enumerate(EXAMPLE.read_text().splitlines(), 1)
        for words in ("the mistake", "loss.backward()")
        if words in line
    }
    alone = f"barrier at guard_torch.py:{at['the mistake']}, in train() on rank 0"
    told = next(line for line in done.stderr.splitlines() if "out of step" in line)
    # what the other is in comes from its stack or, if written in time, from torch's own record of all collectives
    below = re.escape("gradients of loss.backward()")
    line = rf"at guard_torch\.py:{at['loss.backward()']}, in train\(\)"
    assert re.search(rf"{re.escape(alone)} but ({below} {line}|\w.* {line}, {below}) on rank 1", told)
