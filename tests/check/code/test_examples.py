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

EXAMPLE = re.compile(r"```python\n(.*?)```", re.S)


def examples(rule: Rule) -> list[str]:
    return [textwrap.dedent(each) for each in EXAMPLE.findall(textwrap.dedent(rule.doc))]


@pytest.mark.parametrize("rule", code_rules(), ids=lambda rule: rule.id)
def test_the_wrong_example_is_found_and_the_right_one_is_not(rule: Rule, tmp_path: Path) -> None:
    wrong, right = examples(rule)
    found = []
    for name, text in (("wrong.py", wrong), ("right.py", right)):
        (tmp_path / name).write_text(text)
        report = check_code(CodeRequest(paths=(tmp_path / name,), preview=True)).report
        assert not report.crashed
        found.append([each.rule for each in report.findings])
    assert rule.id in found[0]
    assert rule.id not in found[1]
    assert rule.preview or found[1] == [], "the right example breaks another rule"
