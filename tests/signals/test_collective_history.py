# SPDX-License-Identifier: Apache-2.0
"""On which collective ranks differ, and which rank deviated."""

from __future__ import annotations

from keepstep.signals.collective_history import Mismatch, TrailEntry, key, mismatch, packed, parts, place, placed

STEP = ("broadcast 256 bytes", "all_reduce float32x38")


def trail(*keys: str, first: int = 1, lines: dict[int, str] | None = None) -> tuple[TrailEntry, ...]:
    return tuple(TrailEntry(first + n, each, each, (lines or {}).get(first + n, "")) for n, each in enumerate(keys))


def found(*trails: tuple[TrailEntry, ...]) -> Mismatch:
    told = mismatch(dict(enumerate(trails)))
    assert told is not None
    return told


def test_a_collective_of_one_rank_alone_is_named_with_its_line_though_the_others_are_in_ddp() -> None:
    told = found(trail(*STEP * 6, "all_gather", lines={13: "train.py:62"}), trail(*STEP * 7))
    assert (told.sequence, told.what, told.odd) == (13, "operation", (0,))
    assert str(told) == "operation: all_gather at train.py:62 on rank 0 but broadcast 256 bytes on rank 1"


def test_a_rank_that_leaves_the_loop_first_is_the_odd_one() -> None:
    assert found(trail(*STEP * 8), trail(*STEP * 7, "barrier", lines={15: "train.py:70"})).odd == (1,)


def test_of_a_collective_that_all_ranks_issue_now_and_then_nobody_knows_who_is_wrong() -> None:
    common = (*STEP * 5, "all_gather", *STEP * 5)
    lines = {11: "train.py:62", 22: "train.py:62"}
    assert found(trail(*common, "all_gather", lines=lines), trail(*common, STEP[0], lines=lines)).odd == ()
    assert found(
        trail(*common, "all_gather", lines=lines),
        trail(*common, STEP[0], lines=lines),
        trail(*common, STEP[0], lines=lines),
    ).odd == (0,)


def test_a_rank_that_is_only_behind_or_counts_differently_proves_nothing() -> None:
    assert mismatch({0: trail(*STEP * 6), 1: trail(*STEP * 3)}) is None
    assert mismatch({0: trail(*STEP * 6, first=40), 1: trail(*STEP * 6, first=41)}) is None, (
        "every number differs: they do not count alike"
    )
    assert mismatch({0: trail(*STEP * 6), 1: ()}) is None


def test_what_must_be_alike_depends_on_the_operation() -> None:
    assert key("all_reduce", "float32", 4) != key("all_reduce", "float32", 24)
    assert (
        key("all_gather", "float32", 4)
        == key("_all_gather_base", "float32", 6)
        == key("all_gather_into_tensor", "int64", 6)
    )
    assert key("broadcast", "float32", 2) == key("broadcast", "int64", 1) != key("broadcast", "float32", 4)
    assert key("all_gather_object") == key("all_gather", "int64", 1)


def test_operation_and_line_survive_the_black_box() -> None:
    assert parts(packed("all_gather_object", "", 0)) == ("all_gather_object", "", 0)
    assert parts(packed("all_reduce", "float32", 7)) == ("all_reduce", "float32", 7)
    assert placed(place(3, 64)) == (3, 64) and place(1 << 11, 5) == 0 and place(2047, (1 << 20) - 1) < 1 << 31
