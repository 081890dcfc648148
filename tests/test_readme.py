# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what keepstep prints, and what pages link to is there. `make docs` also checks anchors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import keepstep.rules
from keepstep.model.rule import rules_in
from keepstep.render.rules_docs import pages
from tools.readme_report import BLOCK, README, readme

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "RESULTS.md")
    if path.parent.name != "rules"
)

RULES = pages(rules_in(keepstep.rules))
"""Their pages by name, which are not in the repository."""


def test_the_report_in_the_readme_is_what_keepstep_prints_now() -> None:
    pytest.importorskip("hyperscan")  # without it the report says so, in one line more
    text = README.read_text()
    assert BLOCK.search(text)
    assert readme() == text, "run `make docs`"


def test_every_link_leads_somewhere() -> None:
    links = [
        (page, (page.parent / link).resolve())
        for page in PAGES
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    ]
    of_rules = {link for _, link in links if link.parent == ROOT / "docs" / "rules"}
    assert not [link for link in of_rules if link.name not in RULES], "`make docs` writes these, one per rule"
    assert not [f"{page}: {link}" for page, link in links if link not in of_rules and not link.exists()]


def test_every_file_that_a_page_names_is_there() -> None:
    rooms = "src|tests|docs|base|model|signals|story|parse|rules|sources|keepstep_lab"
    pattern = re.compile(rf"`((?:{rooms})/[\w/.]+\.(?:py|md|svg))`")
    named = [(page, name) for page in PAGES for name in pattern.findall(page.read_text())]
    places = (ROOT, ROOT / "src" / "keepstep", ROOT / "lab" / "src")
    assert not [f"{page}: {name}" for page, name in named if not any((place / name).exists() for place in places)]
