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
    path.relative_to(ROOT).as_posix()
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


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    path = ROOT / page
    links = [(path.parent / link).resolve() for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text())]
    of_rules = [link.name for link in links if link.parent == ROOT / "docs" / "rules"]
    assert not [name for name in of_rules if name not in RULES], "`make docs` writes these, one per rule"
    assert not [link for link in links if link.name not in of_rules and not link.exists()]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(
        r"`((?:src|tests|docs|core|parse|rules|sources|keepstep_lab)/[\w/.]+\.(?:py|md|svg))`",
        (ROOT / page).read_text(),
    )
    places = (ROOT, ROOT / "src" / "keepstep", ROOT / "lab" / "src")
    assert not [name for name in named if not any((place / name).exists() for place in places)]
