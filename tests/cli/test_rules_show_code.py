# SPDX-License-Identifier: Apache-2.0
"""`keepstep rules show` prints the programs of a rule as programs."""

from __future__ import annotations

from keepstep.render.rules_text import sections, wrapped
from keepstep.rules import code_rules


def test_a_rules_programs_keep_their_lines() -> None:
    rule = next(each for each in code_rules() if each.id == "COD105")
    wrong = next(each.body for each in sections(rule) if each.heading == "What it looks like")
    lines = wrapped(wrong, 80, "  ")
    assert "  def train(data, step):" in lines
    assert not any("```" in line for line in lines)


def test_text_around_a_program_is_still_filled() -> None:
    body = "one two\nthree\n```python\nx = 1\n\ny = 2\n```\nfour\nfive"
    assert wrapped(body, 80) == ["one two three", "", "x = 1", "", "y = 2", "", "four five"]
