# SPDX-License-Identifier: Apache-2.0
"""File names of strangers: `why` reads what they name, whatever they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.cli.parser import run
from tests.hostile.folders import CRASH, ODD_NAMES, odd_names


def why(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keepstep", "why", "--no-kernel-log", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=120)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_log_is_read_whatever_its_name(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text(CRASH)
    assert run(["why", "--no-kernel-log", "--json", str(tmp_path)]) == 1
    assert json.loads(capsys.readouterr().out)["findings"]


def test_all_of_them_together_are_read(tmp_path: Path) -> None:
    made = odd_names(tmp_path / "logs")
    done = why(tmp_path / "logs", "--json", "--html", tmp_path / "page.html", "--bundle", tmp_path / "all.tar.gz")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    looked = " ".join(each["what"] for each in json.loads(done.stdout)["coverage"])
    assert f"{len(made)} logs" in looked
