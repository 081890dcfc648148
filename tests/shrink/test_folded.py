# SPDX-License-Identifier: Apache-2.0
"""A long statement is folded, and stays the same statement."""

from __future__ import annotations

import ast

import pytest

from keepstep.shrink.folded import WIDTH, folded

LONG = "a_long_name_of_something"


@pytest.mark.parametrize(
    "line",
    [
        f"x = call({', '.join(f'{LONG}={n}' for n in range(9))})",
        f"x = [{LONG} for {LONG} in call({LONG}, {LONG}, {LONG}) if {LONG} > 3 and {LONG} < 10]",
        f"def call({', '.join(f'{LONG}_{n}' for n in range(9))}):",
        f"return {{'a(b': call({LONG}, '{LONG * 3}'), 'c': [{LONG}, {LONG}]}}",
        f"x = call({LONG}, 4, of=({' + '.join([LONG] * 3)},))",
        f"x = call({LONG}, [other({', '.join([LONG] * 6)}), {LONG}], key={LONG})[0]",
    ],
)
def test_a_long_line_is_folded_and_says_the_same(line: str) -> None:
    lines = folded(line, 4)
    assert len(lines) > 1 and all(len(each) + 4 <= WIDTH for each in lines), lines
    body = "def function():\n    " if line.startswith("return") else ""
    tail = "\n        pass" if line.startswith("def ") else ""
    whole = "\n".join(("    " * bool(body) if n else "") + each for n, each in enumerate(lines))
    assert ast.dump(ast.parse(body + whole + tail)) == ast.dump(ast.parse(body + line + tail))


def test_what_fits_or_has_no_brackets_stays() -> None:
    assert folded("x = call(1, 2)", 4) == ["x = call(1, 2)"]
    assert folded(f"x = {' + '.join([LONG] * 9)}", 0) == [f"x = {' + '.join([LONG] * 9)}"]
