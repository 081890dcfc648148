# SPDX-License-Identifier: Apache-2.0
"""Tables in pages are those that the rows would write now, and a rule's page holds all that the rule says."""

from __future__ import annotations

from pathlib import Path

import pytest

import keepstep.rules
from keepstep.model.rule import rules_in
from keepstep.render.rules_docs import log_samples, page_name, pages, rule_page, write_pages
from keepstep.render.rules_text import sections
from tools import row_tables

RULES = rules_in(keepstep.rules)
SAMPLES = log_samples(Path(__file__).parent / "rules" / "fires")


@pytest.mark.parametrize("page", row_tables.PAGES, ids=lambda page: page.name)
def test_the_tables_of_formats_and_launchers_are_current(page: Path) -> None:
    assert page.read_text("utf-8") == row_tables.current(page), "run `make docs`, or `python -m tools.row_tables`"


def test_a_page_holds_all_that_a_rule_says() -> None:
    missing = [
        f"{rule.id}: {said}"
        for rule in RULES
        for said in (rule.id, rule.cause.value, *(f"## {part.heading}\n\n{part.body}" for part in sections(rule)))
        if said not in rule_page(rule)
    ]
    assert not missing


def test_a_page_shows_the_logs_that_make_its_rule_fire_right_after_what_it_looks_like() -> None:
    made = pages(RULES, SAMPLES)
    shown = {rule.id: made[page_name(rule)] for rule in RULES}
    assert len(SAMPLES) > 100
    assert not [name for name, logs in SAMPLES.items() for text in logs.values() if text.strip() not in shown[name]]
    assert not [name for name, page in shown.items() if ("## A log that shows it" in page) != (name in SAMPLES)]
    headings = [line for line in shown["NET004"].splitlines() if line.startswith("## ")]
    assert headings[:3] == ["## What it looks like", "## A log that shows it", "## Why it happens"]


def test_writing_twice_changes_nothing_and_removed_rules_go(tmp_path: Path) -> None:
    assert page_name(RULES[0]) in write_pages(tmp_path)
    (tmp_path / "gone.md").write_text("a rule that is no more")
    assert write_pages(tmp_path) == ["gone.md"]
    assert write_pages(tmp_path) == []
