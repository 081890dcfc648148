# SPDX-License-Identifier: Apache-2.0
"""On which ranks a condition of a program holds: on the first, and on another one that stands for the rest."""

from __future__ import annotations

import pytest

from keepstep.parse.code.conditions import ALWAYS, FIRST_ONLY, NEVER, negated, rank_among, rank_compared

OTHERS_ONLY = negated(FIRST_ONLY)


@pytest.mark.parametrize(
    ("numbers", "inside", "holds"),
    [
        ([0], True, FIRST_ONLY),
        ([0], False, OTHERS_ONLY),
        ([0, 1], True, FIRST_ONLY),
        ([0, -1], False, OTHERS_ONLY),
        ([1, 2], True, OTHERS_ONLY),
        ([1, 2], False, FIRST_ONLY),
        ([-1], True, NEVER),
        ([-1], False, ALWAYS),
        ([], True, NEVER),
        ([], False, ALWAYS),
    ],
)
def test_a_rank_that_is_among_these_or_not(numbers: list[int], inside: bool, holds: object) -> None:
    assert rank_among(numbers, inside) == holds


@pytest.mark.parametrize(
    ("comparison", "number", "holds"),
    [
        ("Eq", 0, FIRST_ONLY),
        ("NotEq", 0, OTHERS_ONLY),
        ("Eq", 3, OTHERS_ONLY),
        ("NotEq", 3, FIRST_ONLY),
        ("Lt", 1, FIRST_ONLY),
        ("LtE", 0, FIRST_ONLY),
        ("LtE", 1, FIRST_ONLY),
        ("Gt", 0, OTHERS_ONLY),
        ("GtE", 1, OTHERS_ONLY),
        ("GtE", 0, ALWAYS),
        ("Lt", 0, NEVER),
        ("Eq", -1, NEVER),
        ("NotEq", -1, ALWAYS),
    ],
)
def test_a_rank_compared_with_a_number(comparison: str, number: int, holds: object) -> None:
    assert rank_compared(comparison, number) == holds
