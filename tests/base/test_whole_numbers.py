# SPDX-License-Identifier: Apache-2.0
"""Text that looks like a number to Python but is none."""

from __future__ import annotations

import pytest

from keepstep.base.whole_numbers import whole


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_decimal_digits_are_a_number(text: str, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize("text", ["", "²", "1²3", "١", "-1", "+1", " 1", "1_0", "9" * 19, "9" * 5000, None, 3, b"3"])
def test_nothing_else_is(text: object) -> None:
    assert whole(text) is None
