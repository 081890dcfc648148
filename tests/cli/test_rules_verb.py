# SPDX-License-Identifier: Apache-2.0
"""``keepstep rules``: list, search, show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import keepstep.rules
from keepstep.cli.parser import run
from keepstep.model.rule import HEADINGS, rules_in

RULES = rules_in(keepstep.rules)


def test_all_rules_are_listed_within_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules"]) == 0
    out = capsys.readouterr().out
    assert all(rule.id in out for rule in RULES)
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "keepstep.rules/1"
    assert {rule["id"] for rule in document["rules"]} == {rule.id for rule in RULES}


@pytest.mark.parametrize("name", ["NET002", "net002", "port-in-use", "port_in_use", "network.port_in_use"])
def test_a_rule_is_shown_by_id_name_or_cause(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "show", name]) == 0
    out = capsys.readouterr().out
    assert "NET002" in out
    assert all(heading in out for heading in HEADINGS)
    assert "\x1b" not in out


def test_every_rule_reads_well_at_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "show", *(rule.id for rule in RULES)]) == 0
    shown = capsys.readouterr().out
    assert all(rule.id in shown for rule in RULES)
    samples = {line.strip() for rule in RULES for code in rule.doc.split("```")[1::2] for line in code.splitlines()}
    prose = [line for line in shown.splitlines() if line.strip() not in samples]
    assert not [line for line in prose if len(line) > 80 and " " in line.strip()]


def test_an_unknown_name_is_a_usage_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "show", "port-inuse"]) == 2
    error = capsys.readouterr().err
    assert "did you mean port-in-use?" in error
    assert "Traceback" not in error


def test_search_finds_by_words_best_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "search", "port", "in", "use"]) == 0
    assert capsys.readouterr().out.split()[0] == "NET002"


def test_search_without_a_hit_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "search", "xyzzyplugh"]) == 0
    assert "no rule mentions" in capsys.readouterr().err


def test_own_rules_are_listed_and_their_mistakes_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keepstep.toml").write_text('[rules]\nfolder = "."\n')
    (tmp_path / "bad.py").write_text("oops(\n")
    (tmp_path / "good.toml").write_text(
        '[[signature]]\nname = "mine"\npattern = "my own words"\ncause = "user.code_exception"\ntitle = "mine"\n'
    )
    assert run(["rules", "--config", str(tmp_path / "keepstep.toml")]) == 0
    said = capsys.readouterr()
    assert "OWN001" in said.out
    assert "bad.py:1" in said.err
