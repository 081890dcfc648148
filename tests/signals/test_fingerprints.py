# SPDX-License-Identifier: Apache-2.0
"""Which replica is odd, and in which tensors."""

from __future__ import annotations

from keepstep.signals.fingerprints import Apart, apart, digest, odd_ones


def test_equal_replicas_have_no_odd_one() -> None:
    assert apart({0: ["a", "b"], 1: ["a", "b"], 2: ["a", "b"]}) == ()


def test_the_odd_one_of_three_is_named_with_its_tensors() -> None:
    assert apart({0: ["a", "b", "c"], 1: ["a", "x", "y"], 2: ["a", "b", "c"]}) == (Apart((1, 2), (1,), True),)


def test_of_two_replicas_both_are_named() -> None:
    assert apart({0: ["a"], 1: ["b"]}) == (Apart((0,), (0, 1), False),)


def test_replicas_that_are_odd_in_different_tensors_are_told_apart() -> None:
    found = apart({0: ["a", "b"], 1: ["x", "b"], 2: ["a", "y"]})
    assert found == (Apart((0,), (1,), True), Apart((1,), (2,), True))


def test_what_is_left_out_does_not_count() -> None:
    assert apart({0: ["a", "b"], 1: ["x", "b"]}, {0}) == ()


def test_without_a_majority_all_are_named() -> None:
    assert odd_ones({0: "a", 1: "a", 2: "b", 3: "b"}) == ((0, 1, 2, 3), False)
    assert odd_ones({0: "a", 1: "a", 2: "a", 3: "b"}) == ((3,), True)


def test_a_fingerprint_depends_on_both_sums() -> None:
    assert digest((1, 2)) != digest((2, 1)) != digest((1, 1))
