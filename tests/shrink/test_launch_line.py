# SPDX-License-Identifier: Apache-2.0
"""What a command means: which script is made smaller, and the line to paste."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keepstep.errors import UserError
from keepstep.shrink.launch_line import launch_line


def test_a_shell_script_starts_the_ranks_and_comes_with_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("1 / 0\n")
    (tmp_path / "start.sh").write_text('for index in 0 1; do\n  TF_CONFIG="$index" python ./train.py &\ndone\nwait\n')
    monkeypatch.chdir(tmp_path)
    line = launch_line(["bash", "start.sh"])
    assert (line.script, line.ranks, line.words) == (str(tmp_path / "train.py"), None, ())
    assert line.order()["command"] == ["bash", str(tmp_path / "start.sh")]
    assert line.beside() == [str(tmp_path / "start.sh")] and line.line("train.py") == "bash start.sh"


def test_a_launcher_that_names_the_script_keeps_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    line = launch_line(["env", "-u", "HOME", sys.executable, "train.py", "--lr", "3"])
    assert line.script == str(tmp_path / "train.py") and line.words == ("--lr", "3")
    assert line.smaller(None, ()).line("train.py") == f"env -u HOME {Path(sys.executable).name} train.py"


def test_a_command_without_a_script_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"names no \.py file"):
        launch_line(["env", "true"])
    with pytest.raises(UserError, match="not found"):
        launch_line(["no-such-launcher", "train.py"])
