# SPDX-License-Identifier: Apache-2.0
"""Programs of one process that use torch in odd ways print the same with and without the guard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guard.torch_ranks import ranks

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]

SCRIPT = Path(__file__).with_name("torch_odd_programs.py")


def printed(folder: Path, which: str, guard: str) -> tuple[int, str, str]:
    folder.mkdir()
    env = {name: os.environ[name] for name in ("PATH", "HOME", "VIRTUAL_ENV") if name in os.environ}
    env |= {"KEEPSTEP": guard, "KEEPSTEP_DIR": str(folder / "guard"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(SCRIPT), which], env=env, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("which", ["quick", pytest.param("slow", marks=pytest.mark.long)])
def test_they_print_what_they_print_without_the_guard(tmp_path: Path, which: str) -> None:
    without, guarded = (printed(tmp_path / guard, which, guard) for guard in ("off", "on"))
    assert guarded[:2] == without[:2], guarded
    assert "failed" not in without[1], without[1]
    assert list((tmp_path / "on" / "guard").glob("*.box")), "the guard has watched"
    said = [line for line in guarded[2].splitlines() if line.startswith("keepstep:")]
    assert not [line for line in said if "the loss is" not in line], said


EMPTY = """
import torch
real = torch.optim.SGD.__init__
def made(self, params, *args, **kwargs):
    real(self, [{"params": []}, {"params": list(params)}], *args, **kwargs)
torch.optim.SGD.__init__ = made
"""


def test_the_first_group_of_parameters_may_be_empty(tmp_path: Path) -> None:
    with ranks(tmp_path, "--first", EMPTY) as run:
        assert run.ended() == [0, 0], run.logs()
        assert "keepstep" not in run.logs()
        assert not run.notes("GuardPart")
