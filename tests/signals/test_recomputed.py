# SPDX-License-Identifier: Apache-2.0
"""Who computes wrong, told from repeats."""

from __future__ import annotations

import pytest

from keepstep.signals.recomputed import Computed, WhoIsOdd, differing, distance, who_is_odd


def of(number: float) -> list[Computed]:
    return [Computed("first", "a", (1.0,), 1.0), Computed("last", repr(number), (number,), 1.0)]


@pytest.mark.parametrize(
    ("asked", "buddy", "witness", "odd"),
    [
        ((2.0, 2.0), (1.0, 1.0), 1.0, WhoIsOdd(True, False, True, (1,))),
        ((1.0, 1.0), (2.0, 2.0), 1.0, WhoIsOdd(False, True, True, (1,))),
        ((2.0, 1.0), (1.0, 1.0), 1.0, WhoIsOdd(True, False, False, (1,))),
        ((1.0, 1.0), (2.0, 1.0), 1.0, WhoIsOdd(False, True, False, (1,))),
        ((2.0, 3.0), (1.0, 1.0), 1.0, WhoIsOdd(True, False, True, (1,))),
        ((2.0, 2.0), (1.0, 1.0), None, WhoIsOdd(True, True, True, (1,))),
        ((2.0, 2.0), (1.0, 1.0), 3.0, None),
        ((1.0, 2.0), (3.0, 4.0), 5.0, None),
    ],
)
def test_repeats_tell_whose_numbers_are_odd(
    asked: tuple[float, float], buddy: tuple[float, float], witness: float | None, odd: WhoIsOdd | None
) -> None:
    seen = None if witness is None else of(witness)
    assert who_is_odd([of(each) for each in asked], [of(each) for each in buddy], seen) == odd


def test_only_what_lies_outside_of_its_band_differs() -> None:
    bands = {"last": 1e-6}
    assert differing(of(1.0), of(1.0 + 5e-6)) == (1,)
    assert differing(of(1.0), of(1.0 + 5e-6), bands) == ()
    assert differing(of(1.0), of(1.0 + 5e-5), bands) == (1,)
    assert differing(of(1.0), of(float("nan")), bands) == (1,)


def test_other_bits_are_a_distance_even_where_the_sums_are_equal() -> None:
    one, other = Computed("x", "a", (1.0,), 1.0), Computed("x", "b", (1.0,), 1.0)
    assert distance(one, one) == 0.0 < distance(one, other)
    assert differing([one], [other]) == (0,)
    assert differing([one], []) == (0,)
