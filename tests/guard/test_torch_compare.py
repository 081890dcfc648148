# SPDX-License-Identifier: Apache-2.0
"""What ranks say about their collectives: what is a mismatch, and what only looks like one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from keepstep.guard.adapters.torch.collectives.pace import late_rank
from keepstep.guard.adapters.torch.collectives.script_calls import FORMS
from keepstep.guard.adapters.torch.compare_collectives import BACKWARD, BELOW, COLLECTIVE, Op, RankWord, mismatch
from keepstep.guard.adapters.torch.compiling import what_changes
from keepstep.signals.collective_history import TrailEntry, packed, unpacked


def ops(*words: str, first: int = 1, gap: int = 1, running: bool = False) -> tuple[Op, ...]:
    found = [Op(number, first + (number - 1) * gap, each, each) for number, each in enumerate(words, 1)]
    if running:
        last = found.pop()
        found.append(Op(last.number, last.sequence, last.key, last.words, running=True))
    return tuple(found)


def word(
    issued: Iterable[Op] = (),
    *,
    doing: str = COLLECTIVE,
    sequence: int = 0,
    idle: bool = True,
    ends: tuple[tuple[int, int], ...] = (),
) -> RankWord:
    issued = tuple(issued)
    number = sequence or max((op.sequence for op in issued), default=0)
    return RankWord(
        still_s=0.5,
        idle=idle,
        doing=doing,
        line="train.py:1, in main()",
        sequences={"0": number},
        ops={"0": issued},
        ends=ends,
    )


def found(*words: RankWord) -> str | None:
    told = mismatch(dict(enumerate(words)), "0", tuple(range(len(words))))
    return None if told is None else f"#{told.sequence} {told}"


def test_another_operation_type_or_size_under_one_number_is_a_mismatch() -> None:
    sums = ops("all_reduce float32[2]", "all_reduce float32[2]")
    other = ops("all_reduce float32[2]", "broadcast float32[2]")
    assert (
        found(word(sums), word(other))
        == "#2 operation: all_reduce float32[2] on rank 0 but broadcast float32[2] on rank 1"
    )
    longer = ops("all_reduce float32[2]", "all_reduce float32[8]")
    assert (
        found(word(sums), word(sums), word(longer))
        == "#2 shape: all_reduce float32[2] on ranks 0, 1 but all_reduce float32[8] on rank 2"
    )
    double = ops("all_reduce float32[2]", "all_reduce float64[2]")
    assert (
        found(word(double), word(sums))
        == "#2 dtype: all_reduce float64[2] on rank 0 but all_reduce float32[2] on rank 1"
    )


def test_the_rank_that_decides_who_deviated_is_waited_for_but_not_long() -> None:
    alike = [TrailEntry(number, "all_reduce float32x2", "all_reduce float32[2]") for number in range(1, 9)]
    sums = RankWord(still_s=0.1, trails={"0": (*alike, TrailEntry(9, "all_gather 8 bytes", "all_gather float32[2]"))})
    gathers = RankWord(still_s=0.1, trails={"0": (*alike, TrailEntry(9, "reduce float32x2", "reduce float32[2]"))})
    behind = RankWord(still_s=0.1, trails={"0": tuple(alike)})
    assert found(sums, gathers, behind) is None
    third = found(sums, gathers, gathers)
    assert third == "#9 operation: reduce float32[2] on ranks 1, 2 but all_gather float32[2] on rank 0"
    assert found(replace(sums, still_s=2.0), replace(gathers, still_s=2.0), behind) is not None


def test_a_rank_that_is_only_behind_is_none() -> None:
    ahead = ops("all_reduce float32[2]", "all_reduce float32[2]", "barrier", running=True)
    behind = ops("all_reduce float32[2]")
    assert found(word(ahead), word(behind, doing="input")) is None
    assert found(word(ahead), word(behind, doing=BACKWARD, idle=False)) is None
    assert found(word(ahead), word(behind, doing=BACKWARD)) is None, "it has issued nothing under that number yet"


def test_counts_that_do_not_agree_prove_nothing() -> None:
    assert (
        found(
            word(ops("all_reduce float32[2]", "barrier", gap=1)),
            word(ops("all_reduce float32[2]", "broadcast float32[2]", gap=3)),
        )
        is None
    )


def test_a_pipeline_whose_groups_count_messages_too_is_compared_by_what_is_alike() -> None:
    first = ops("all_reduce float32[2]", "all_reduce float32[2]", first=5, gap=9)
    second = ops("all_reduce float32[2]", "all_reduce float32[2]", first=7, gap=11)
    assert found(word(first), word(second)) is None


def test_a_barrier_against_gradients_is_a_mismatch() -> None:
    script = ops("all_reduce float32[2]", "barrier", first=10, running=True)
    below = word(ops("all_reduce float32[2]", first=10), doing=BACKWARD, sequence=12)
    assert (
        found(word(script), below, below) == f"#11 operation: {BELOW[BACKWARD]} at train.py:1, in main() on ranks 1, 2 "
        "but barrier at train.py:1, in main() on rank 0"
    )
    assert found(word(script, idle=False), below) is None
    never = word((), doing=BACKWARD, sequence=4)
    assert (
        found(never, word(ops("barrier", first=4, running=True)))
        == f"#4 operation: {BELOW[BACKWARD]} at train.py:1, in main() on rank 0 "
        "but barrier at train.py:1, in main() on rank 1"
    )


def test_counts_at_the_ends_of_steps_tell_who_issued_one_more() -> None:
    one = word(doing="elsewhere", ends=((1, 10), (2, 20), (3, 30)))
    other = word(doing="elsewhere", ends=((1, 10), (2, 20), (3, 31)))
    assert found(one, one, other) == "#31 collectives issued by the end of step 3: 30 on ranks 0, 1 but 31 on rank 2"
    apart_at_first = word(doing="elsewhere", ends=((1, 11), (2, 20), (3, 30)))
    assert found(one, apart_at_first) is None, "the counts differed before they were first alike, and never since"
    never_alike = word(doing="elsewhere", ends=((1, 11), (2, 22), (3, 33)))
    assert found(one, never_alike) is None
    assert found(word(doing="elsewhere", idle=False, ends=one.ends), other) is None


def test_words_survive_the_way_to_the_other_rank() -> None:
    here = word(ops("barrier", running=True), ends=((1, 2),))
    assert RankWord.from_dict(json.loads(json.dumps(here.to_dict()))) == here


def test_a_collective_fits_into_a_record_of_the_black_box() -> None:
    for name in FORMS:
        assert unpacked(packed(name, "float32", 12)) == f"{name} float32, 12 elements"
    assert unpacked(packed("barrier", "", 0)) == "barrier"
    assert unpacked(packed("all_reduce", "bfloat16", (1 << 39) - 1)) == f"all_reduce bfloat16, {(1 << 39) - 1} elements"
    assert packed("all_reduce", "float32", 1 << 39) == 0 and unpacked(0) == ""
    assert packed("all_reduce", "float32", (1 << 39) - 1) < 1 << 63


def test_the_argument_that_keeps_changing_is_named_with_its_values() -> None:
    new = [f"0/{n}: tensor 'inputs' size mismatch at index 0. expected {n + 1}, actual {n + 2}" for n in range(4)]
    assert what_changes(new) == "inputs size 0 keeps changing: 2, 3, 4, 5"
    old = ["tensor 'L['inputs']' size mismatch at index 1. expected 7, actual 9"]
    assert what_changes(old) == "inputs size 1 keeps changing: 9"
    assert what_changes(["0/0: L['rate'] == 0.1"]) == "rate keeps changing: other than 0.1"
    assert what_changes(["something else\nmore"]) == "something else" and what_changes([]) is None


def test_the_rank_for_which_all_others_wait_is_late() -> None:
    def round_of(share: float, steps: int = 9, **more: float) -> dict[str, float]:
        return {"share": share, "steps": steps, "step_s": 0.1, **more}

    def rounds(*shares: float, steps: int = 20) -> dict[int, dict[str, float]]:
        return {rank: round_of(share, steps) for rank, share in enumerate(shares)}

    assert late_rank(rounds(0.9, 0.05, 0.8), 3) == 1
    assert late_rank(rounds(0.9, 0.05), 3) is None, "not all have told"
    assert late_rank(rounds(0.9, 0.4, 0.05), 3) is None, "not all others wait"
    assert late_rank(rounds(0.3, 0.2), 2) is None
    assert late_rank(rounds(0.9, 0.05, steps=2), 2) is None, "it hardly moved: a pause is no pace"
    waits = round_of(0.9, ready=0.1, crowding=10.0)
    assert late_rank({0: waits, 1: round_of(0.05, ready=0.9, crowding=10.0)}, 2) is None, "it only lacks the processor"
    assert late_rank({0: waits, 1: round_of(0.05, ready=0.9, crowding=1.0)}, 2) == 1
    assert late_rank({0: waits, 1: round_of(0.05, ready=0.1, crowding=10.0)}, 2) == 1, "it sleeps: that is its own"
