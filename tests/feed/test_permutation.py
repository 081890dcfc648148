# SPDX-License-Identifier: Apache-2.0
"""The order without memory: a permutation, and a random one."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.feed.permutation import Permutation, key_of
from keepstep.feed.shard import shard


@settings(max_examples=200, deadline=None)
@given(size=st.integers(1, 3000), key=st.integers(0, 2**64 - 1))
def test_every_number_comes_once(size: int, key: int) -> None:
    assert sorted(Permutation(size, key)) == list(range(size))


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13, 64])
def test_every_number_is_equally_likely_at_every_place(size: int) -> None:
    """Chi-square per place over many keys: far below what a biased order shows."""
    keys = 4000
    counts = [Counter[int]() for _ in range(size)]
    for seed in range(keys):
        for place, number in enumerate(Permutation(size, key_of(seed, 0))):
            counts[place][number] += 1
    expected = keys / size
    for count in counts:
        chi_square = sum((count[number] - expected) ** 2 / expected for number in range(size))
        assert chi_square < (size - 1) + 6 * (2 * size) ** 0.5 + 6


def test_neighbours_do_not_stay_neighbours() -> None:
    size = 10_000
    order = list(Permutation(size, key_of(3, 1)))
    close = sum(abs(a - b) < size // 100 for a, b in pairwise(order))
    assert 0.01 < close / size < 0.03
    fixed = sum(place == number for place, number in enumerate(order))
    assert fixed < 8


def test_seeds_and_epochs_do_not_collide() -> None:
    keys = {key_of(seed, epoch) for seed in range(-50, 50) for epoch in range(100)}
    assert len(keys) == 100 * 100
    assert key_of(2**64, 0) != key_of(0, 0) != key_of(1, 0) != key_of(0, 1)


def test_a_billion_records_take_no_memory() -> None:
    tracemalloc.start()
    begun = time.monotonic()
    own = shard(10**9, batch=256, rank=3, ranks=64, seed=1, epoch=7, skip=range(0, 10**9, 10**6))
    seen = [next(own.batches()), own[len(own) - 1], own[len(own) // 2]]
    own.resume(own.state(step=own.steps // 2))
    seen.append(next(own.batches()))
    took, peak = time.monotonic() - begun, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(seen) == 4 and peak < 2_000_000 and took < 5
