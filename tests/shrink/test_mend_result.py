# SPDX-License-Identifier: Apache-2.0
"""The cure of a planted bug finds its place in a smaller program."""

from __future__ import annotations

import ast
from difflib import unified_diff
from pathlib import Path

from benchmarks.mend_result import Mend, mended, mends_of_patch

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
    assert mended(tmp_path, Mend(old, new, tmp_path / "train.py", ORIGINAL))
    return ast.unparse(ast.parse((tmp_path / "job.py").read_text()))


def test_a_cure_within_an_expression_of_which_less_is_left(tmp_path: Path) -> None:
    text = cured(tmp_path, "bias(x, window, device=device)", "(bias(x, window, device=device)).to(x)")
    assert "y = bias(x, 2).to(x)" in text


def test_a_line_more_and_a_block_less(tmp_path: Path) -> None:
    assert "total = 0\n    barrier()" in cured(tmp_path, "    total = 0\n", "    total = 0\n    barrier()\n")
    assert "y + 1" not in cured(tmp_path, "    if window > 4:\n        y = y + 1\n", "")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SMALLER)
    assert not mended(tmp_path, Mend("print(total)", "log(total)", tmp_path / "job.py", ORIGINAL))
    assert (tmp_path / "job.py").read_text() == SMALLER


def test_a_cure_that_takes_away_what_has_gone_is_none(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SMALLER)
    assert not mended(tmp_path, Mend("        total += each\n", "", tmp_path / "job.py", ORIGINAL))


def test_a_patch_is_a_mend_for_each_place_that_it_changes(tmp_path: Path) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    source.mkdir()
    result.mkdir()
    (source / "job.py").write_text(ORIGINAL)
    (result / "job.py").write_text(SMALLER)
    (result / "a_file_before_it.py").write_text("import sys\n")
    fixed = ORIGINAL.replace("y + 1", "y + 2").replace("print(total)", "log(total)").splitlines(keepends=True)
    diff = unified_diff(ORIGINAL.splitlines(keepends=True), fixed, "a/job.py", "b/job.py", n=0)
    mends = mends_of_patch(source, "".join(diff))
    assert [mended(result, each) for each in mends] == [True, False]
    assert "y = y + 2" in ast.unparse(ast.parse((result / "job.py").read_text()))
