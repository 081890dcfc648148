# SPDX-License-Identifier: Apache-2.0
"""The labelled programs have the form that their README promises."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
PAIRS = sorted(path for part in ("shown", "added", "held_out") for path in (PROGRAMS / part).iterdir())
LABEL = re.compile(r"  # BUG (COD\d{3})$", re.MULTILINE)


def files(pair: Path, side: str) -> list[Path]:
    alone = pair / f"{side}.py"
    return [alone] if alone.exists() else sorted((pair / side).rglob("*.py"))


def texts(pair: Path, side: str) -> str:
    return "".join(path.read_text() for path in files(pair, side))


def test_a_pair_has_a_labelled_wrong_side_and_a_right_side_without_labels() -> None:
    for pair in PAIRS:
        wrong, right = texts(pair, "wrong"), texts(pair, "right")
        assert 1 <= len(LABEL.findall(wrong)) <= 2, pair.name
        assert set(LABEL.findall(wrong)) == {pair.name.partition("_")[0]}, pair.name
        assert "BUG" not in right and LABEL.sub("", wrong) != right, pair.name


def test_both_sides_are_python_and_the_wrong_one_says_what_it_shows() -> None:
    said: dict[str, str] = {}
    for pair in PAIRS:
        for path in files(pair, "right"):
            ast.parse(path.read_text(), str(path))
        said[pair.name] = "\n".join(
            ast.get_docstring(ast.parse(path.read_text(), str(path))) or "" for path in files(pair, "wrong")
        )
    assert not [name for name, text in said.items() if not re.search(r"^Shows: \w+", text, re.MULTILINE)]


def test_one_pair_in_three_is_held_out_and_no_name_is_used_twice() -> None:
    held = [path.name for path in PAIRS if path.parent.name == "held_out"]
    shown = [path.name for path in PAIRS if path.parent.name == "shown"]
    assert len({path.name for path in PAIRS}) == len(PAIRS)
    assert abs((len(shown) + len(held)) / 3 - len(held)) <= 2
