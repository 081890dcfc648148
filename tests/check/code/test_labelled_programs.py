# SPDX-License-Identifier: Apache-2.0
"""The labelled programs have the form that their README promises."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PAIRS = sorted(path for part in ("shown", "added", "held_out") for path in (PROGRAMS / part).iterdir())
LABEL = re.compile(r"  # BUG (COD\d{3})$", re.MULTILINE)


def files(pair: Path, side: str) -> list[Path]:
    alone = pair / f"{side}.py"
    return [alone] if alone.exists() else sorted((pair / side).rglob("*.py"))


def texts(pair: Path, side: str) -> str:
    return "".join(path.read_text() for path in files(pair, side))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name)
def test_a_pair_has_a_labelled_wrong_side_and_a_right_side_without_labels(pair: Path) -> None:
    rule = pair.name.partition("_")[0]
    wrong, right = texts(pair, "wrong"), texts(pair, "right")
    assert 1 <= len(LABEL.findall(wrong)) <= 2
    assert set(LABEL.findall(wrong)) == {rule}
    assert "BUG" not in right
    assert LABEL.sub("", wrong) != right


@pytest.mark.parametrize("pair", PAIRS, ids=lambda path: path.name)
def test_both_sides_are_python_and_the_wrong_one_says_what_it_shows(pair: Path) -> None:
    for side in ("wrong", "right"):
        for path in files(pair, side):
            ast.parse(path.read_text(), str(path))
    said = [ast.get_docstring(ast.parse(path.read_text())) or "" for path in files(pair, "wrong")]
    assert re.search(r"^Shows: \w+", "\n".join(said), re.MULTILINE)


def test_one_pair_in_three_is_held_out_and_no_name_is_used_twice() -> None:
    held = [path.name for path in PAIRS if path.parent.name == "held_out"]
    shown = [path.name for path in PAIRS if path.parent.name == "shown"]
    assert len({path.name for path in PAIRS}) == len(PAIRS)
    assert abs((len(shown) + len(held)) / 3 - len(held)) <= 2
