# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import CollectiveMismatch, RanksMissing
from keepstep.parse.tools.trainers import horovod

STALL = (
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
    "for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to submit "
    "different tensors or that only subset of ranks is submitting tensors, which will cause deadlock. "
)


def stall(first: str, *following: str) -> list[Fact]:
    block = horovod.BLOCKS[0]
    match = block.begin.pattern.search(STALL + first)
    assert match is not None
    return list(block.read(match, iter(following)))


def test_the_stall_list_names_the_missing_rank_in_the_old_words() -> None:
    facts = stall("", "Stalled ops:grad_0 [missing ranks: 1]", "W x.cc:588] grad_1 [missing ranks: 1]")
    assert facts == [RanksMissing(missing=(1,), waited_s=60.0, what="stalled operation", final=False)]


def test_the_stall_list_names_the_missing_rank_in_the_new_words() -> None:
    facts = stall("", "Missing ranks:", "2: [grad_0, grad_1 ...]")
    assert facts == [RanksMissing(missing=(2,), waited_s=60.0, what="stalled operation", final=False)]


def test_ready_ranks_tell_the_missing_one_by_the_gap() -> None:
    facts = stall("Stalled ops: grad_0 [ready ranks: 5, 6, 3, 1, 4, 0]")
    assert facts == [RanksMissing(missing=(2,), waited_s=60.0, what="stalled operation", final=False)]


def test_ranks_that_wait_in_different_tensors_are_a_mismatch() -> None:
    facts = stall("Stalled ops: loss [ready ranks: 3], grad [ready ranks: 2, 0, 1]")
    assert any(isinstance(fact, CollectiveMismatch) for fact in facts)
