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


def test_anchors_that_are_not_derived_have_a_reason() -> None:
    without = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            for word in node.keywords if isinstance(node, ast.Call) else ():
                passed_on = isinstance(word.value, ast.Name) and path.parent.name == "scan"
                reason = isinstance(word.value, ast.Call) and ast.unparse(word.value.func) == "by_hand"
                if word.arg == "anchors" and not passed_on and not reason:
                    without.append(f"{path.parent.name}/{path.name}:{word.value.lineno}")
    assert not without


def test_anchors_that_are_not_derived_have_a_reason_in_data_too() -> None:
    assert not [
        row.where for path in data_files() for row, said in rows_of(path) if ("anchors" in said) != ("because" in said)
    ]
