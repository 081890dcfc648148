# SPDX-License-Identifier: Apache-2.0
"""Tables in pages are those that the rows would write now, and a rule's page holds all that the rule says."""

from __future__ import annotations

from pathlib import Path

import pytest

import keepstep.rules
from keepstep.model.rule import Rule, rules_in
from keepstep.render.rules_docs import page_name, rule_page, write_pages
from keepstep.render.rules_text import sections
from tools import row_tables

RULES = rules_in(keepstep.rules)


@pytest.mark.parametrize("page", row_tables.PAGES, ids=lambda page: page.name)
def test_the_tables_of_formats_and_launchers_are_current(page: Path) -> None:
    assert page.read_text("utf-8") == row_tables.current(page), "run `make docs`, or `python -m tools.row_tables`"


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
