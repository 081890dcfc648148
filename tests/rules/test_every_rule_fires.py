# SPDX-License-Identifier: Apache-2.0
"""Every rule fires on something: ``fires/FAMILY.toml`` has the least that makes each one fire.

``logs.NAME`` is a log, read as ``keepstep why`` reads it. ``evidence`` is what other sources hand over: the guard, the
checks, stack and core readers. A new rule needs an entry; a rule that nothing can make fire is dead.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.codec import from_dict
from keepstep.model.evidence import EvidenceSet
from keepstep.model.report import Report
from keepstep.rules import builtin_rules
from keepstep.story.engine import diagnose

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).with_name("fires")
FAMILIES = sorted(path.stem for path in FOLDER.glob("*.toml"))
A_TEST = {"origin": {"source": "a test"}}


@cache
def entries(family: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((FOLDER / f"{family}.toml").read_text("utf-8"))["fires"]
    return found


def report_on(entry: dict[str, Any], folder: Path) -> Report:
    if "evidence" in entry:
        items = tuple(from_dict({**A_TEST, **each}) for each in entry["evidence"])
        return diagnose(EvidenceSet(items=items), builtin_rules())
    folder.mkdir()
    for name, text in entry["logs"].items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report


@pytest.mark.parametrize("family", FAMILIES)
def test_each_entry_makes_its_rule_fire(family: str, tmp_path: Path) -> None:
    silent = []
    for number, entry in enumerate(entries(family)):
        report = report_on(entry, tmp_path / str(number))
        assert not report.crashed, entry["rule"]
        if entry["rule"] not in {finding.rule for finding in report.findings}:
            silent.append(entry["rule"])
    assert not silent


def test_every_rule_has_an_entry_in_the_file_of_its_family() -> None:
    rules = {(rule.find.__module__.split(".")[2], rule.id) for rule in builtin_rules()}
    assert {(family, entry["rule"]) for family in FAMILIES for entry in entries(family)} == rules
