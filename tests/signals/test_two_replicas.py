# SPDX-License-Identifier: Apache-2.0
"""Which of two replicas is wrong, by what both saw when they made some steps twice."""

from __future__ import annotations

import math

from keepstep.signals.two_replicas import StepsAgain, which

GOOD = StepsAgain(steps=4, gradients={"7": "a", "8": "b"}, settings={"lr": "0.1"}, largest=(2.0, 1.5))


def test_the_one_whose_own_step_is_not_reproduced_is_named() -> None:
    for odd in (StepsAgain(steps=4, outside=3), StepsAgain(steps=4, unlike=1), StepsAgain(steps=4, far=4)):
        found = which({0: GOOD, 3: odd})
        assert (found.rank, found.sure) == (3, True)
        assert which({0: odd, 3: odd}).rank is None  # what both do is no fault of one


def test_a_number_that_is_out_of_all_range_is_only_probably_wrong() -> None:
    for largest in (4e37, math.inf, math.nan):
        found = which({0: StepsAgain(steps=4, largest=(largest, 2.0)), 1: GOOD})
        assert (found.rank, found.sure) == (0, False)
    assert which({0: StepsAgain(steps=4, largest=(100.0, 90.0)), 1: GOOD}).rank is None


def test_what_names_nobody_says_why() -> None:
    apart = StepsAgain(steps=4, gradients={"8": "c", "9": "d"}, settings={"lr": "0.1"}, largest=(2.0, 1.5))
    other = StepsAgain(steps=4, settings={"lr": "0.2"})
    for answer, words in (
        (GOOD, "it happened once"),
        (apart, "gradients differ after the exchange"),
        (other, "differ in lr"),
        (StepsAgain(why="no room"), "rank 1 could not repeat a step: no room"),
    ):
        found = which({0: GOOD, 1: answer})
        assert found.rank is None and words in found.words
