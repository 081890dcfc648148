# SPDX-License-Identifier: Apache-2.0
"""The written pages are those that the rules would write now."""

from __future__ import annotations

from pathlib import Path

import pytest

import keepstep.rules
from keepstep.model.rule import Rule, rules_in
from keepstep.render.rules_docs import page_name, pages, rule_page, write_pages
from keepstep.render.rules_text import sections

FOLDER = Path(__file__).parent.parent / "docs" / "rules"
RULES = rules_in(keepstep.rules)


def test_the_pages_on_rules_are_current() -> None:
    wanted = pages(RULES)
    there = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
    assert not stale, f"run `make docs`; stale: {stale}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_holds_all_that_a_rule_says(rule: Rule) -> None:
    page = rule_page(rule)
    assert rule.id in page and rule.cause.value in page
    for section in sections(rule):
        assert f"## {section.heading}\n\n{section.body}" in page


def test_writing_twice_changes_nothing_and_removed_rules_go(tmp_path: Path) -> None:
    assert page_name(RULES[0]) in write_pages(tmp_path)
    (tmp_path / "gone.md").write_text("a rule that is no more")
    assert write_pages(tmp_path) == ["gone.md"]
    assert write_pages(tmp_path) == []
