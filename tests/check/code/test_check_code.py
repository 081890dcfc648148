# SPDX-License-Identifier: Apache-2.0
"""``keepstep check code`` as a user calls it: what it prints, what it refuses, and what no file can do to it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from keepstep.check.code import cache
from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.check.code.files import find
from keepstep.check.code.judge import judged
from keepstep.cli.parser import run
from keepstep.rules import code_rules
from keepstep.store.user_cache import Kept

ROOT = Path(__file__).parents[3]
ALONE = """\
import torch.distributed as dist


def save(path):
    if dist.get_rank() == 0:
        dist.barrier(){}
"""
HELPER = """\
import torch.distributed as dist


def is_first():
    return dist.get_rank() == 0


def settle():
    dist.barrier()
"""
CALLER = """\
from helper import is_first, settle


def main():
    if is_first():
        settle()
"""


def keepstep(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As `python -m keepstep` would, in this process: a start costs more than most of these checks."""
    before, out, err = Path.cwd(), io.StringIO(), io.StringIO()
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run([str(word) for word in words])
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def rules_in(path: Path, **more: Any) -> list[tuple[str, int | None]]:
    report = check_code(CodeRequest(paths=(path,), **more)).report
    return [(each.rule, each.evidence[0].origin.line) for each in report.findings]


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(ALONE.format(""))
    return tmp_path


def test_a_finding_names_line_rule_condition_and_fix(wrong: Path) -> None:
    command = [sys.executable, "-m", "keepstep", "check", "code", "train.py"]
    done = subprocess.run(command, cwd=wrong, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "train.py:6:9: COD001 [fatal]" in done.stdout
    assert "> dist.barrier()" in done.stdout
    assert "`dist.get_rank() == 0` (line 5)" in done.stdout
    assert "fix: " in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_nothing_wrong_is_status_0(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    done = keepstep("check", "code", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "no problems found in 1 file\n")


def test_the_forms_for_machines(wrong: Path) -> None:
    report = json.loads(keepstep("check", "code", ".", "--json", cwd=wrong).stdout)
    assert report["schema"] == "keepstep.report/1"
    assert report["findings"][0]["cause"] == "sync.collective_mismatch"
    assert report["findings"][0]["evidence"][0]["source"] == "train.py"
    told = keepstep("check", "code", ".", "--format", "github", cwd=wrong).stdout
    assert told.startswith("::error file=train.py,line=6,col=9,title=COD001 ")
    sarif = json.loads(keepstep("check", "code", ".", "--format", "sarif", cwd=wrong).stdout)["runs"][0]
    result = sarif["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("train.py", 6)
    assert sarif["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "COD001"


def test_a_comment_switches_a_finding_off_and_the_sum_says_so(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ALONE.format("  # keepstep: ignore[COD001] by design"))
    assert rules_in(script) == []
    assert "1 switched off" in keepstep("check", "code", "train.py", cwd=tmp_path).stdout
    script.write_text(ALONE.format("  # keepstep: ignore[COD105] another one"))
    assert rules_in(script) == [("COD001", 6)]


def test_a_project_has_settings(wrong: Path) -> None:
    (wrong / "keepstep.toml").write_text('[check.code]\nignore = ["COD001"]\n')
    assert keepstep("check", "code", ".", cwd=wrong).returncode == 0
    (wrong / "keepstep.toml").write_text('[check.code]\nexclude = ["train.py"]\n')
    assert keepstep("check", "code", ".", cwd=wrong).returncode == 3
    (wrong / "keepstep.toml").write_text('[check.code]\nignored = ["COD001"]\n')
    refused = keepstep("check", "code", ".", cwd=wrong)
    assert refused.returncode == 2
    assert "[check.code] has no ignored" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "code"], "no file or folder is given"),
        (["check", "code", "nowhere"], "there is no such file or folder"),
        (["check", "code", ".", "--select", "XYZ"], "no rule about code begins with XYZ"),
    ],
)
def test_bad_input_is_refused_in_a_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = keepstep(*words, cwd=tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_the_way_to_a_collective_in_another_file_is_shown(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(CALLER)
    report = check_code(CodeRequest(paths=(tmp_path / "train.py",))).report
    assert [each.rule for each in report.findings] == ["COD001"]
    assert "through settle() at helper.py:9" in report.findings[0].because


def test_a_notebook_is_read_by_its_code(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# save\n"]},
        {"cell_type": "code", "source": ["!pip install torch\n", "%matplotlib inline\n"], "outputs": ["x" * 1000]},
        {"cell_type": "code", "source": ALONE.format("").splitlines(keepends=True), "outputs": []},
    ]
    (tmp_path / "save.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    assert [rule for rule, _ in rules_in(tmp_path)] == ["COD001"]


HOSTILE = {
    "python2.py": b"print 'hello'\n",
    "broken.py": b"def f(:\n",
    "deep.py": b"x = " + b"(" * 5000 + b")" * 5000 + b"\n",
    "deep_operators.py": b"x = " + b"-" * 200_000 + b"1\n",
    "nested.py": b"".join(b" " * n + b"if x:\n" for n in range(300)) + b" " * 300 + b"pass\n",
    "binary.py": bytes(range(256)) * 40,
    "zero.py": b"x = 1\x00\n",
    "latin.py": "# caf\u00e9\n".encode("latin-1"),
    "huge.py": b"x = 1\n" * 600_000,
    "not.ipynb": b"{]",
    "list.ipynb": b"[1, 2]",
}


def test_no_file_ends_the_check(wrong: Path) -> None:
    for name, data in HOSTILE.items():
        (wrong / name).write_bytes(data)
    (wrong / "loop").symlink_to(wrong)
    (wrong / "gone.py").symlink_to(wrong / "nowhere.py")
    done = keepstep("check", "code", ".", "--json", cwd=wrong)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert [each["rule"] for each in report["findings"]] == ["COD001"]
    not_read = {each["what"] for each in report["coverage"] if each["state"] == "partly checked"}
    assert not_read >= set(HOSTILE) - {"deep_operators.py", "nested.py"}
    assert not any("keepstep itself failed" in each["why"] for each in report["coverage"])


def test_a_second_check_believes_only_what_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(cache.FROM_FILES):
        (project / f"m{number}.py").write_text(ALONE.format(""))
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    first = rules_in(project)
    assert len(first) == cache.FROM_FILES
    monkeypatch.setattr("keepstep.check.code.check_code.read_all", _read_nothing)
    assert rules_in(project) == first
    monkeypatch.undo()
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    (project / "m7.py").write_text("x = 1\n")
    assert len(rules_in(project)) == cache.FROM_FILES - 1


def _read_nothing(files: list[Any], tell: Any = None) -> dict[str, Any]:
    assert not files, "all of them are known"
    return {}


def test_a_cache_that_somebody_wrote_makes_nothing_but_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "made"), "w"))

    project = tmp_path / "project"
    project.mkdir()
    for number in range(cache.FROM_FILES):
        (project / f"m{number}.py").write_text(ALONE.format(""))
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    first = rules_in(project)
    assert len(first) == cache.FROM_FILES
    files = find([project]).files
    known = cache.Cache(files, [each.id for each in code_rules() if not each.preview])
    said = known.known()
    assert len(said) == len(files)
    evil = pickle.dumps(Evil())
    islands = {(path,): evil for path in said}
    known.keep(said, {}, {path: evil for path in said}, islands)
    assert rules_in(project) == first
    for body in (evil, pickle.dumps((Evil(), {}, {})), pickle.dumps((1, 2)), b"no pickle", b""):
        for name, key in [(cache.ANSWERS, known._key), *((part, known._place) for part in cache.UNITS)]:
            Kept(tmp_path / "cache").put(name, key, body)
        assert rules_in(project) == first
    assert not (tmp_path / "made").exists()


def test_a_changed_file_is_judged_again_with_those_that_it_concerns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(cache.FROM_FILES):
        (project / f"m{number}.py").write_text(ALONE.format(""))
    (project / "helper.py").write_text(HELPER)
    (project / "train.py").write_text(CALLER)
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    asked: list[list[tuple[str, ...]]] = []

    def watched(islands: Any, *more: Any) -> Any:
        asked.append(islands)
        return judged(islands, *more)

    monkeypatch.setattr("keepstep.check.code.check_code.judged", watched)
    first = rules_in(project)
    assert len(first) == cache.FROM_FILES + 1
    asked.clear()
    assert rules_in(project) == first and asked == []
    (project / "helper.py").write_text(HELPER.replace("dist.get_rank() == 0", "True"))
    assert len(rules_in(project)) == cache.FROM_FILES
    ((island,),) = asked
    assert [Path(each).name for each in island] == ["helper.py", "train.py"]
    asked.clear()
    assert len(rules_in(project, cache=False)) == cache.FROM_FILES and len(asked[0]) == cache.FROM_FILES + 1


def test_the_pre_commit_hook_refuses_a_wrong_file(wrong: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *words = [*shlex.split(hook["entry"]), *hook["args"]]
    assert program == "keepstep"
    assert hook["pass_filenames"] is False
    assert keepstep(*words, cwd=wrong).returncode == 1
    (wrong / "train.py").write_text("x = 1\n")
    assert keepstep(*words, cwd=wrong).returncode == 0


def test_an_empty_folder_is_not_called_right(tmp_path: Path) -> None:
    done = keepstep("check", "code", ".", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("nothing was read")


def test_no_finding_about_collectives_is_called_established(wrong: Path) -> None:
    """Names and conditions may mean something else than they seem to, and code that was not read may answer them."""
    report = check_code(CodeRequest(paths=(wrong,))).report
    assert [each.confidence.value for each in report.findings] == ["supported"]
