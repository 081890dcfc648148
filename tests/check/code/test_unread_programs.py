# SPDX-License-Identifier: Apache-2.0
"""What `check code` could not read never counts as healthy, links lead nowhere, and a pipe stops nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keepstep.check.code import check_code, files
from keepstep.cli.parser import run

FINE = "print('hello')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text(FINE)
    (folder / "b.py").write_text(FINE)
    monkeypatch.chdir(folder)
    return folder


def test_the_control_is_healthy(project: Path) -> None:
    assert run(["check", "code", "."]) == 0


def test_files_that_could_not_be_read_are_never_healthy(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "old.py").write_text("print 'hello'\n")
    (project / "deep.py").write_text("x = " + "(" * 5000)
    (project / "large.py").write_text("#" * (files.LARGEST + 1))
    (project / "binary.py").write_bytes(b"\xff\xfe\x00\x81" * 50)
    os.mkfifo(project / "pipe.py")
    assert run(["check", "code", "."]) == 3
    told = capsys.readouterr().out
    assert told.count("not read: ") == 5
    assert "no problems found in 2 files; not everything was read" in told
    assert run(["check", "code", ".", "--format", "github"]) == 3
    assert capsys.readouterr().out.count("::warning title=not read::") == 5


def test_more_files_than_are_read_are_never_healthy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 1)
    assert run(["check", "code", "."]) == 3


def test_more_imports_than_are_followed_are_never_healthy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_code, "MOST_NEIGHBOURS", 2)
    (project / "a.py").write_text("import b\n")
    (project / "b.py").write_text("import c\n")
    (project / "c.py").write_text(FINE)
    assert run(["check", "code", "a.py"]) == 3


@pytest.mark.parametrize("given", [".", "a.py"])
def test_links_out_of_the_folder_are_not_followed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    secret = "import torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier()  # private-words\n"
    (tmp_path / "outside.py").write_text(secret)
    (project / "link.py").symlink_to(tmp_path / "outside.py")
    (project / "a.py").write_text("import link\n")
    assert run(["check", "code", given]) == (3 if given == "." else 0)
    told = capsys.readouterr().out
    assert "private-words" not in told
    if given == ".":
        assert "not read: link.py: a link out of the folder; --follow reads it" in told
        assert run(["check", "code", given, "--follow"]) == 1
        assert "private-words" in capsys.readouterr().out


def test_a_link_that_was_named_is_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(project / "a.py")
    (tmp_path / "linked").symlink_to(project)
    assert run(["check", "code", str(tmp_path / "link.py")]) == 0
    assert run(["check", "code", str(tmp_path / "linked")]) == 0


def test_a_pipe_with_the_name_of_settings_stops_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(project / "keepstep.toml")
    (project.parent / "keepstep.toml").write_text("[check.code]\nexclude = ['b.py']\n")
    assert run(["check", "code", ".", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any(each["what"].endswith("keepstep.toml") and "regular" in each["why"] for each in told["coverage"])
