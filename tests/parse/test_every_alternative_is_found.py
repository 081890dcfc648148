# SPDX-License-Identifier: Apache-2.0
"""Every alternative of every pattern is found in a log: no anchor leaves a part of its pattern out.

It cannot be said of anchors that are given by hand: they are there to leave something out.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import keepstep.parse.tools
from keepstep.parse.scan.knowledge import Knowledge, build
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.signature import Signature, derive
from keepstep.parse.scan.tables import data_files, patterns, rows_of, tables
from tests.parse.samples import samples

PARTS = 6
MOST_WITHOUT_A_SAMPLE = 72
"""Rows whose look-arounds no text that is made so simply fulfils."""
FILES = sorted(Path(keepstep.parse.tools.__file__).parents[1].rglob("*.py"))


@cache
def knowledge() -> tuple[Knowledge, dict[str, str]]:
    return build(*tables()), {derive(pattern).expression: pattern for pattern in patterns()}


def texts_of(each: Signature) -> list[str]:
    return [text for text in samples(knowledge()[1][each.expression]) if each.read(text) is not None]


def is_found(each: Signature, text: str) -> bool:
    kind = type(each.read(text))
    return any(type(sighting.fact) is kind for sighting in LogScan(knowledge()[0]).scan([text.encode() + b"\n"]))


def is_by_hand(each: Signature) -> bool:
    return each.anchors != derive(knowledge()[1][each.expression]).anchors


@pytest.mark.parametrize("part", range(PARTS))
def test_every_alternative_is_found(part: int) -> None:
    missed = {
        each.expression: (text, each.anchors)
        for each in tables()[0][part::PARTS]
        if not is_by_hand(each)
        for text in texts_of(each)
        if not is_found(each, text)
    }
    assert not missed


def test_hardly_any_row_is_without_a_sample() -> None:
    assert sum(not texts_of(each) for each in tables()[0]) <= MOST_WITHOUT_A_SAMPLE


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_anchors_that_are_not_derived_have_a_reason(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        given = [word.value for word in node.keywords if word.arg == "anchors"] if isinstance(node, ast.Call) else []
        for value in given:
            passed_on = isinstance(value, ast.Name) and path.parent.name == "scan"
            assert passed_on or (isinstance(value, ast.Call) and ast.unparse(value.func) == "by_hand"), (
                f"{path.name}:{value.lineno}"
            )


def test_anchors_that_are_not_derived_have_a_reason_in_data_too() -> None:
    assert not [
        row.where for path in data_files() for row, said in rows_of(path) if ("anchors" in said) != ("because" in said)
    ]
