# SPDX-License-Identifier: Apache-2.0
"""Ranks that were fed the same batches, by hashes alone."""

from __future__ import annotations

from keepstep.signals.contracts import Difference, shortfall
from keepstep.signals.same_batches import FedAlikeRanks, fed_alike


def first(*digests: str) -> dict[str, str]:
    return {f"batch {number}": digest for number, digest in enumerate(digests, 1)}


def test_the_same_batches_at_the_same_places_are_named() -> None:
    found = fed_alike({0: first("a", "b", "c", "d"), 1: first("e", "f", "g", "h"), 2: first("a", "b", "c", "d")})
    assert found == (FedAlikeRanks((0, 2), ("batch 1", "batch 2", "batch 3", "batch 4")),)


def test_groups_are_kept_apart_and_the_largest_comes_first() -> None:
    fed = {rank: first(*("abcd" if rank < 2 else "efgh")) for rank in range(5)} | {5: first(*"ijkl")}
    assert [each.ranks for each in fed_alike(fed)] == [(2, 3, 4), (0, 1)]


def test_another_order_constant_data_and_one_batch_say_nothing() -> None:
    assert fed_alike({0: first("a", "b", "c", "d"), 1: first("b", "a", "d", "c")}) == ()
    assert fed_alike({0: first("a", "a", "a", "a"), 1: first("a", "a", "a", "a")}) == ()
    assert fed_alike({0: first("a"), 1: first("a")}) == ()
    assert fed_alike({0: first("a", "b", "c", "d"), 1: first("a", "b", "x", "d")}) == ()
    assert fed_alike({0: first("a", "b"), 1: {}}) == ()
    assert fed_alike({}) == ()


def test_ranks_that_become_alike_later_are_named_by_where_it_began() -> None:
    later = {"epoch 2": "p", "step 46": "q", "epoch 3": "r"}
    found = fed_alike({0: first(*"abcd") | later, 1: first(*"efgh") | later})
    assert found == (FedAlikeRanks((0, 1), ("epoch 2", "step 46", "epoch 3")),)
    assert fed_alike({0: first(*"abcd") | later, 1: first(*"efgh") | {**later, "epoch 3": "s"}}) == ()


def test_only_batches_that_both_ranks_hashed_are_compared() -> None:
    found = fed_alike({0: first(*"abcd"), 1: {"batch 2": "b", "batch 3": "c"}})
    assert found == (FedAlikeRanks((0, 1), ("batch 2", "batch 3")),)


def test_a_rank_with_fewer_batches_is_named_with_the_batch_at_which_the_others_wait() -> None:
    words = shortfall(Difference("batches", (("5891", (0, 1, 2)), ("5879", (3,)))))
    assert words is not None
    assert words.startswith("rank 3 has 12 batches fewer (5,879 of 5,891): the other ranks will wait at batch 5,880")
    assert "none at all" in (shortfall(Difference("batches", (("7", (0,)), ("0", (1,))))) or "")
    assert shortfall(Difference("batches", (("without end", (0,)), ("7", (1,))))) is None
