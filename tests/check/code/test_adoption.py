# SPDX-License-Identifier: Apache-2.0
"""``keepstep check code`` in a project that has findings already: baseline, changed lines, settings and comments."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from tests.check.code.test_check_code import ALONE, CALLER, HELPER, keepstep

MORE = ALONE.format("") + "\n\ndef load(path):\n    if dist.get_rank() == 0:\n        dist.all_reduce(path)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(ALONE.format(""))
    return tmp_path


def test_a_baseline_hides_what_is_known_though_it_moved_and_nothing_new(project: Path) -> None:
    made = keepstep("check", "code", "train.py", "--write-baseline", "known.json", cwd=project)
    assert made.returncode == 0 and made.stdout == "wrote 1 finding to known.json; 1 file read\n"
    (project / "train.py").write_text("import os\n\n" + MORE)
    done = keepstep("check", "code", "train.py", "--baseline", "known.json", cwd=project)
    assert done.returncode == 1 and "train.py:13:9: COD001" in done.stdout and "train.py:8" not in done.stdout
    assert "1 problem in 1 file; 1 in the baseline" in done.stdout
    (project / "train.py").write_text("print(1)\n")
    done = keepstep("check", "code", "train.py", "--baseline", "known.json", cwd=project)
    assert done.returncode == 0 and "1 entry of the baseline can go" in done.stdout


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "other", "findings": []}', '{"schema": "keepstep.baseline/1"}'])
def test_what_is_no_baseline_is_refused(project: Path, text: str) -> None:
    (project / "known.json").write_text(text)
    done = keepstep("check", "code", "train.py", "--baseline", "known.json", cwd=project)
    assert done.returncode == 2 and "known.json is no baseline" in done.stderr


def test_only_lines_that_changed_since_a_commit(project: Path) -> None:
    def git(*words: str) -> None:
        said = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
        subprocess.run(said, cwd=project, check=True, capture_output=True)

    git("init", "-q")
    git("add", "train.py")
    git("commit", "-qm", "first")
    assert keepstep("check", "code", ".", "--diff", "HEAD", cwd=project).returncode == 0
    (project / "train.py").write_text(MORE)
    (project / "added.py").write_text(ALONE.format(""))
    done = keepstep("check", "code", ".", "--diff", "HEAD", cwd=project)
    assert done.returncode == 1
    assert "train.py:11:9: COD001" in done.stdout and "train.py:6" not in done.stdout and "added.py:6" in done.stdout
    refused = keepstep("check", "code", ".", "--diff", "no-such-branch", cwd=project)
    assert refused.returncode == 2 and "no-such-branch" in refused.stderr


def test_settings_in_pyproject_and_per_file(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.keepstep.check.code]\nper-file-ignores = { "*rain.py" = ["COD0"] }\n'
    )
    done = keepstep("check", "code", "train.py", cwd=project)
    assert done.returncode == 0 and "1 switched off by comments or settings" in done.stdout
    (project / "pyproject.toml").write_text("[tool.keepstep.check.code]\nper-file-ignores = 3\n")
    assert keepstep("check", "code", "train.py", cwd=project).returncode == 2


def test_comments_for_a_block_and_those_without_use(project: Path) -> None:
    (project / "train.py").write_text(
        "# keepstep: off[COD001]\n" + MORE + "# keepstep: on\nprint(1)  # keepstep: ignore[COD001]\n"
        "print(2)  # keepstep: ignore[COD999]\n"
    )
    done = keepstep("check", "code", "train.py", cwd=project)
    assert done.returncode == 0 and "2 switched off" in done.stdout
    assert "train.py:14: the comment that switches COD001 off is not needed" in done.stdout
    assert "train.py:15: there is no rule COD999" in done.stdout


def test_statistics_and_a_status_that_lets_a_build_go_on(project: Path) -> None:
    done = keepstep("check", "code", "train.py", "--statistics", "--exit-zero", cwd=project)
    assert done.returncode == 0 and "1  COD001 fatal" in done.stdout


def test_one_odd_cell_does_not_cost_a_notebook(project: Path) -> None:
    cells = ["files = !ls\n%matplotlib inline\nx?\n", "this is no Python\n", ALONE.format("")]
    body = {"cells": [{"cell_type": "code", "source": each.splitlines(keepends=True)} for each in cells]}
    (project / "train.ipynb").write_text(json.dumps(body))
    done = keepstep("check", "code", "train.ipynb", cwd=project)
    assert "train.ipynb:cell 3:6:9: COD001" in done.stdout
    assert "not read: train.ipynb: cell 2 is no Python, line 1" in done.stdout
    told = json.loads(keepstep("check", "code", "train.ipynb", "--format", "sarif", cwd=project).stdout)
    result = told["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "train.ipynb"
    assert len(result["partialFingerprints"]["ruleFileLine/v1"]) == 32


class Bytes:
    """Standard input that has these bytes."""

    def __init__(self, text: str) -> None:
        self.buffer = io.BytesIO(text.encode())


def test_a_program_on_standard_input_is_judged_under_its_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "helper.py").write_text(HELPER)
    name = ("--stdin-filename", "pkg/x.py")
    monkeypatch.setattr("sys.stdin", Bytes(CALLER))
    done = keepstep("check", "code", "-", *name, cwd=project)
    assert done.returncode == 1 and "pkg/x.py:6:9: COD001" in done.stdout and "> settle()" in done.stdout
    (project / "pyproject.toml").write_text('[tool.keepstep.check.code]\nper-file-ignores = { "pkg/*" = ["COD0"] }\n')
    monkeypatch.setattr("sys.stdin", Bytes(CALLER))
    done = keepstep("check", "code", "-", *name, cwd=project)
    assert done.returncode == 0 and "1 switched off" in done.stdout
    monkeypatch.setattr("sys.stdin", Bytes(ALONE.format("  # keepstep: ignore[COD001] why")))
    assert keepstep("check", "code", "-", cwd=project).returncode == 0
    monkeypatch.setattr("sys.stdin", Bytes(ALONE.format("")))
    assert "<stdin>:6:9: COD001" in keepstep("check", "code", "-", cwd=project).stdout
    monkeypatch.setattr("sys.stdin", Bytes("x = 1\n" * 600_000))
    done = keepstep("check", "code", "-", cwd=project)
    assert done.returncode == 3 and "larger than 2 MiB" in done.stdout


@pytest.mark.parametrize("words", [("-", "train.py"), ("-", "--fix"), ("-", "--diff", "HEAD")])
def test_what_does_not_go_with_standard_input_is_refused(project: Path, words: tuple[str, ...]) -> None:
    assert keepstep("check", "code", *words, cwd=project).returncode == 2


def test_columns_count_characters_in_every_form(project: Path) -> None:
    (project / "load.py").write_text(
        "from torch.utils.data import DataLoader, DistributedSampler\n\n\ndef load(data):\n"
        "    return '\u00e4\u00e4', DataLoader(data, sampler=DistributedSampler(data), shuffle=True)\n"
    )
    report = json.loads(keepstep("check", "code", ".", "--json", cwd=project).stdout)
    place = next(each for each in report["findings"] if each["rule"] == "COD104")["evidence"][0]
    assert (place["line"], place["column"], place["end_line"], place["end_column"]) == (5, 18, 5, 82)
    sarif = json.loads(keepstep("check", "code", ".", "--format", "sarif", cwd=project).stdout)["runs"][0]
    result = next(each for each in sarif["results"] if each["ruleId"] == "COD104")
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startColumn"], region["endLine"], region["endColumn"]) == (18, 5, 82)
    assert result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "False"}
    told = keepstep("check", "code", ".", "--format", "github", cwd=project).stdout
    assert "file=load.py,line=5,col=18,endColumn=82,title=COD104" in told
