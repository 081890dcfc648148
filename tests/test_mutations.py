# SPDX-License-Identifier: Apache-2.0
"""`make mutants` changes what it says it changes, in functions already in use, and names modules that exist."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutations import ROOT, TABLE, changes, mutant, take_over, tomllib

SOURCE = """
MOST = 3

def few(number: int) -> bool:
    return number < MOST and not number == 7
"""


def test_every_change_is_made_in_the_code_that_others_have_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    number = len(list(changes(ast.parse(SOURCE))))
    said = set()
    for each in range(number):
        module = ModuleType("mutated")
        exec(compile(SOURCE, "mutated", "exec"), vars(module))
        monkeypatch.setitem(sys.modules, "mutated", module)
        few = module.few
        assert [few(n) for n in range(-2, 9)] == [True] * 5 + [False] * 6
        code, change = mutant(SOURCE, each)
        assert code is not None
        take_over(module, code)
        said.add(change.what)
        assert [few(n) for n in range(-2, 31)] != [True] * 5 + [False] * 28 or change.what in ("7 -> 8", "7 -> 70")
    assert said >= {
        "3 -> 4",
        "3 -> 30",
        "Lt -> LtE",
        "Lt -> GtE",
        "And -> Or",
        "not removed",
        "Eq -> NotEq",
        "return None",
    }


def test_the_table_names_modules_and_tests_that_are_there() -> None:
    for module, tests in [row for part in tomllib.loads(TABLE.read_text()).values() for row in part.items()]:
        assert importlib.util.find_spec(module), module
        assert tests and all(Path(ROOT, test).is_file() for test in tests), module
