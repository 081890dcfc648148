# SPDX-License-Identifier: Apache-2.0
"""The cure of a planted bug finds its place in a smaller program."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.mend_result import mended

ORIGINAL = """\
def scores(x, window, device):
    y = bias(x, window, device=device)
    if window > 4:
        y = y + 1
    total = 0
    for each in y:
        total += each
        print(total)
    return total
"""
SMALLER = "def scores(x):\n    y = bias(x, 2)\n    if 2 > 1:\n        y = y + 1\n    total = 0\n    return total\n"


def cured(tmp_path: Path, old: str, new: str) -> str:
    (tmp_path / "job.py").write_text(SMALLER)
    assert mended(tmp_path, ORIGINAL, old, new)
    return ast.unparse(ast.parse((tmp_path / "job.py").read_text()))


def test_a_cure_within_an_expression_of_which_less_is_left(tmp_path: Path) -> None:
    text = cured(tmp_path, "bias(x, window, device=device)", "(bias(x, window, device=device)).to(x)")
    assert "y = bias(x, 2).to(x)" in text


def test_a_line_more_and_a_block_less(tmp_path: Path) -> None:
    assert "total = 0\n    barrier()" in cured(tmp_path, "    total = 0\n", "    total = 0\n    barrier()\n")
    assert "y + 1" not in cured(tmp_path, "    if window > 4:\n        y = y + 1\n", "")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SMALLER)
    assert not mended(tmp_path, ORIGINAL, "no such line", "another")
    assert (tmp_path / "job.py").read_text() == SMALLER
