# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.environment import InternalFault, UnsupportedCombination
from keepstep.model.facts.process import ExceptionRaised, Frame, NativeAbort
from keepstep.model.facts.resource import AllocationAbsurd, HostAllocationFailed
from keepstep.model.finding import Confidence, Found
from keepstep.model.identity import Rank
from keepstep.model.rule import Rule
from keepstep.rules.framework.internal_fault import internal_fault
from keepstep.rules.framework.segfault import segfault
from keepstep.rules.framework.unsupported_combination import unsupported_combination
from keepstep.rules.resource.host_oom_killed import host_oom_killed


def asked(rule: Rule, *facts: tuple[int | None, Fact]) -> list[Found]:
    items = tuple(
        Evidence(
            fact=fact,
            origin=Origin(source=f"rank{rank}.log", line=line),
            rank=Rank(index=rank) if rank is not None else None,
        )
        for line, (rank, fact) in enumerate(facts, 1)
    )
    return list(rule.find(EvidenceSet(items=items)))


def test_a_refused_combination_is_told() -> None:
    (found,) = asked(unsupported_combination, (0, UnsupportedCombination(what="a with b")))
    assert "a with b" in found.title


def test_a_failed_internal_check_is_told() -> None:
    (found,) = asked(internal_fault, (1, InternalFault(what="INTERNAL ASSERT FAILED")))
    assert "rank 1" in found.title


def test_an_allocation_of_a_nonsensical_size_is_a_fault_and_no_want_of_memory() -> None:
    seen = ((2, AllocationAbsurd(requested=113702387720192)), (2, HostAllocationFailed()))
    (found,) = asked(internal_fault, *seen)
    assert "113702387720192 bytes" in found.title
    assert not asked(host_oom_killed, *seen)
    assert asked(host_oom_killed, (2, HostAllocationFailed()))


def test_a_thread_that_was_left_behind_is_named_as_what_terminates_without_an_exception() -> None:
    (found,) = asked(segfault, (1, NativeAbort(what="terminate called without an active exception")))
    assert found.confidence is Confidence.HYPOTHESIS
    assert "a thread still runs" in found.because and "join background threads" in found.fixes[0].do
    (other,) = asked(segfault, (1, NativeAbort(what="double free or corruption (out)")))
    assert "thread" not in other.because


def raised_in(file: str) -> ExceptionRaised:
    return ExceptionRaised(type="ValueError", message="odd", frames=(Frame(function="f", file=file, line=1),))


def test_what_keras_3_raises_under_several_workers_is_no_fault_of_the_program() -> None:
    world = (0, WorldSeen(size=2, index=0, role="worker"))
    inside = (0, raised_in("/x/site-packages/keras/src/trainers/trainer.py"))
    (found,) = asked(unsupported_combination, world, inside)
    assert "Keras 3" in found.title
    assert asked(unsupported_combination, inside) == []
    assert asked(unsupported_combination, world, (0, raised_in("train.py"))) == []


def test_a_condition_of_the_compiler_is_its_own_fault_also_where_it_compiles_collectives() -> None:
    abort = NativeAbort(what="Check failed: reduction_kind.has_value()", where="nccl_all_reduce_thunk.cc:175")
    assert asked(segfault, (0, abort))


def test_a_failed_call_to_other_ranks_is_not_the_frameworks_fault() -> None:
    abort = NativeAbort(what="Check failed: result == 0 (6 vs. 0)", where="nccl_utils.cc:90")
    assert not asked(segfault, (0, abort))
