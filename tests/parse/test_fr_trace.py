# SPDX-License-Identifier: Apache-2.0
"""What torchfrtrace prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.model.facts.sync import CollectiveMismatch, NothingRecorded, RanksMissing, RecordedCollective
from keepstep.parse.formats import fr_trace
from tests.parse.reading import reader
from tests.rules.explained import findings

read = reader(fr_trace)


def test_a_culprit_is_named_with_what_it_ran():
    (fact,) = read(
        "error msg: Culprit rank 22; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[1025]]' does not match found input sizes: '[[262144]]'"
    )
    assert fact == CollectiveMismatch(
        other_rank=22, what="size_or_syntax_mismatch", left="[[1025]]", right="[[262144]]"
    )


def test_a_state_that_differs_is_a_rank_that_did_not_come():
    assert read("error msg: Culprit rank 3; Error type: COLLECTIVE_STATE_MISMATCH") == [
        RanksMissing(missing=(3,), what="flight recorder")
    ]


@pytest.mark.parametrize("line", ["missing ranks: {1, 3}", "2025-01-02 03:04:05 [INFO] missing ranks: {1, 3}"])
def test_missing_ranks_are_named(line):
    assert read(line) == [RanksMissing(missing=(1, 3), what="flight recorder")]


@pytest.mark.parametrize("line", ["Error type: MISMATCH", "missing ranks: set()", "no missing ranks: all joined"])
def test_a_near_miss_says_nothing(line):
    assert read(line) == []


def gap(group: str, missing: str, expected: str, head: str = ", sequence number: 4", state: str = "scheduled") -> str:
    """As torch 2.13 prints it (torch/distributed/flight_recorder/components/types.py, EntryState.log)."""
    return (
        f"Not all ranks joining collective{head}\ninternal record id: 6\ngroup info: {group}\n"
        f"collective: nccl:all_reduce\nmissing ranks: {missing}\ninput sizes: [[16]]\noutput sizes: [[16]]\n"
        f"world size: 2\nexpected ranks: {expected}\ncollective state: {state}\ncollective stack trace: \n"
        " all_reduce at /venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:3245\n"
        "step at /job/train.py:24\n"
    )


def test_a_collective_that_a_member_did_not_join_is_an_entry_of_those_who_wait() -> None:
    waits, lacks = read(gap("5:mesh_tp", "{5}", "{4, 5}"))
    assert isinstance(waits, RecordedCollective) and lacks == NothingRecorded(rank=5)
    assert (waits.rank, waits.group, waits.seq, waits.op, waits.members) == (4, "5:mesh_tp", 4, "all_reduce", (4, 5))
    assert waits.frame is not None and (waits.frame.file, waits.frame.line) == ("/job/train.py", 24)


def test_before_torch_2_6_only_the_number_of_members_is_printed() -> None:
    whole = [
        f.rank for f in read(gap("0:default_pg", "{1}", "3", " 4 at entry 3")) if isinstance(f, RecordedCollective)
    ]
    part = [f for f in read(gap("7:tp", "{1}", "3", " 4 at entry 3")) if isinstance(f, RecordedCollective)]
    assert (whole, part) == ([0, 2], [])


@pytest.mark.parametrize(("missing", "expected"), [("{9}", "{4, 5}"), ("{4, 5}", "{4, 5}"), ("set()", "{4, 5}")])
def test_ranks_that_do_not_fit_say_nothing(missing: str, expected: str) -> None:
    assert not [f for f in read(gap("5:mesh_tp", missing, expected)) if isinstance(f, RecordedCollective)]


def test_waits_that_it_prints_are_followed_through_all_groups(tmp_path: Path) -> None:
    """torchfrtrace misses rank 4 in one group and rank 5 in another; 4 only waits for 5."""
    text = gap("1:mesh_dp", "{4}", "{0, 2, 4, 6}") + gap("5:mesh_tp", "{5}", "{4, 5}")
    (found,) = findings(tmp_path, trace=text)
    assert (found.cause.value, found.ranks) == ("sync.deadlock_or_hang_waiting_rank", (5,))
