# SPDX-License-Identifier: Apache-2.0
"""Every rule about programs finds its own wrong example, and nothing in its right one."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.model.rule import Rule
from keepstep.rules import code_rules

EXAMPLE = re.compile(r"```(\w+)\n(.*?)```", re.S)
NAMES = {"python": "train.py", "json": "ds.json", "yaml": "job.yaml", "sh": "train.sh"}


def examples(rule: Rule) -> list[tuple[str, str]]:
    """Each with the name of its file: by the language, so that a script may name the settings."""
    return [(NAMES[language], textwrap.dedent(text)) for language, text in EXAMPLE.findall(rule.doc)]


@pytest.mark.parametrize("rule", code_rules(), ids=lambda rule: rule.id)
def test_the_wrong_example_is_found_and_the_right_one_is_not(rule: Rule, tmp_path: Path) -> None:
    found = []
    for side, (name, text) in zip(("wrong", "right"), examples(rule), strict=True):
        (tmp_path / side).mkdir()
        (tmp_path / side / name).write_text(text)
        report = check_code(CodeRequest(paths=(tmp_path / side / name,), preview=True)).report
        assert not report.crashed
        found.append([each.rule for each in report.findings])
    assert rule.id in found[0]
    assert rule.id not in found[1]
    assert rule.preview or found[1] == [], "the right example breaks another rule"
