# SPDX-License-Identifier: Apache-2.0
"""A mistyped verb, option or name: keepstep says what it was meant to be, and `help` is a verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.base.did_you_mean import did_you_mean
from keepstep.cli.parser import VERBS, run
from keepstep.store import run_folders

MISTAKES = {
    "wyh train.log": "why",
    "chekc env": "check",
    "why --jsno train.log": "--json",
    "why --html=x --bundel=y train.log": "--bundle",
    "run --max-atempts 3 -- python train.py": "--max-attempts",
    "run --remedy saef -- python train.py": "safe",
    "check code --selct COD1 .": "--select",
    "check code . --format jsno": "json",
    "check netwrk": "network",
    "check data x --policy torch-samplr": "torch-sampler",
    "rules shwo NET002": "show",
    "rules show NET02": "NET002 or ",
    "rules show port-in-us": "port-in-use",
    "check code . --select CODD101": "COD101",
    "completion bsh": "bash",
    "help wyh": "why",
    "why lats": "last",
    "why 20011117T014640Z-trian": "20011117T014640Z-train",
    "lab run torch_segfalt": "torch_segfault",
    "lab nodes run lost_nod": "",
    "lab guests run lightnin": "",
}


def said_by(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        status = run(line.split())
    except SystemExit as left:
        status = int(left.code or 0)
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_with_the_nearest(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    old = run_folders.create(tmp_path / ".keepstep" / "runs", ["train.py"], name=None, ranks=1, version="1")
    old.path.rename(old.path.with_name("20011117T014640Z-train"))
    old.path = old.path.with_name("20011117T014640Z-train")
    old.save()
    status, out, err = said_by(line, capsys)
    assert (status, out) == (2, "")
    assert f"did you mean {MISTAKES[line]}" in err


def test_what_is_like_nothing_gets_no_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert did_you_mean("zzzz", ["why", "check"], "see the list") == "see the list"
    status, _, err = said_by("zzzz", capsys)
    assert status == 2 and "did you mean" not in err and "keepstep --help" in err


@pytest.mark.parametrize("verb", ["", *VERBS, "rules show", "lab run"])
def test_help_is_a_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = said_by(f"help {verb}", capsys)
    assert asked == said_by(f"{verb} --help", capsys)
    assert asked[0] == 0 and asked[1].startswith(f"usage: keepstep {verb}".rstrip())
