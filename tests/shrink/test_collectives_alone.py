# SPDX-License-Identifier: Apache-2.0
"""The collectives of a run as a program of their own, and whether that fails as the run did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keepstep.shrink.collectives_alone import Issued, difference_alone, issued_in, program_of
from keepstep.shrink.same_failure import Failure
from keepstep.signals.collective_history import key

SUM = "all_reduce float32[68]"
DIED = "all_reduce float32, 3 elements"
HEAD = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
"""


def note(rank: int, group: str, *words: str, first: int = 1, line: str = "", **more: Any) -> dict[str, Any]:
    keys = [key(each.split(" ")[0], "float32", 1) if " " in each else each for each in words]
    keys = [f"{kind} {each}" if each == DIED else kind for kind, each in zip(keys, words, strict=True)]
    issued = [[number, *each, line] for number, each in enumerate(zip(keys, words, strict=True), first)]
    return {"rank": rank, "group": group, "members": [0, 1], "issued": issued, **more}


def known(*notes: dict[str, Any], world: int = 2) -> Issued:
    found = issued_in(notes, world)
    assert found is not None
    return found


def test_a_rank_that_died_silently_is_known_by_its_box_and_by_what_the_others_issued_before() -> None:
    found = known(note(1, "script", DIED, first=4), note(0, "0", "broadcast int64[6]", SUM, SUM, SUM))
    assert program_of(found) == HEAD + (
        "dist.broadcast(torch.zeros(6, dtype=torch.int64), 0)\n"
        "dist.all_reduce(torch.zeros(68))\n"
        "dist.all_reduce(torch.zeros(68))\n"
        "if rank == 0:\n"
        "    dist.all_reduce(torch.zeros(68))\n"
        "if rank == 1:\n"
        "    dist.all_reduce(torch.zeros(3))\n"
    )


def test_what_repeats_is_a_loop_and_reductions_stay() -> None:
    text = program_of(known(*(note(rank, "0", *[SUM] * 9, "all_reduce float32[] MAX", "barrier") for rank in (0, 1))))
    assert text == HEAD + (
        "for _ in range(9):\n    dist.all_reduce(torch.zeros(68))\n"
        "dist.all_reduce(torch.zeros(()), dist.ReduceOp.MAX)\ndist.barrier()\n"
    )


def test_groups_are_made_again_and_keep_the_order_of_the_scripts_lines() -> None:
    notes = []
    for rank in (0, 1, 2):
        box = note(rank, "script", line="job.py:3")
        if rank:
            box = note(rank, "script", "barrier", SUM, line="job.py:3")
            pair = note(rank, "1", "barrier", SUM, line="job.py:3, in main()", members=[1, 2])
            notes.append(pair)
        notes += [note(rank, "0", SUM, line="job.py:9, in main()"), box]
    assert program_of(known(*notes, world=3)) == HEAD + (
        "group_1 = dist.new_group([1, 2])\n"
        "if rank == 0:\n    dist.all_reduce(torch.zeros(68))\n"
        "if rank in [1, 2]:\n"
        "    dist.barrier(group_1)\n"
        "    dist.all_reduce(torch.zeros(68), group=group_1)\n"
        "    dist.all_reduce(torch.zeros(68))\n"
    )


def test_whether_a_collective_was_issued_at_a_line() -> None:
    assert BEFORE.at(("job.py", 9)) is None, "no lines are known"
    found = known(*(note(rank, "0", SUM, line="job.py:9, in main()") for rank in (0, 1)))
    assert found.at(("/home/job.py", 9)) and found.at(("/home/job.py", 8)) is False


def test_objects_take_two_numbers_and_one_call() -> None:
    text = program_of(known(*(note(rank, "0", *["all_gather_object"] * 4) for rank in (0, 1))))
    assert text is not None and text.count("dist.all_gather_object(") == 2


def test_what_came_before_a_gap_is_left_out() -> None:
    boxes = [note(rank, "script", "barrier", first=1) for rank in (0, 1)]
    for box in boxes:
        box["issued"] += note(0, "script", DIED, first=7)["issued"]
    text = program_of(known(*boxes))
    assert text == HEAD + "dist.all_reduce(torch.zeros(3))\n"


@pytest.mark.parametrize(
    "notes",
    [
        [],
        [note(0, "0", SUM)],
        [note(0, "0", SUM), note(1, "0", SUM), note(0, "1", SUM, members=[]), note(1, "1", SUM, members=[])],
    ],
    ids=["nothing noted", "a rank without notes", "a group whose ranks are unknown"],
)
def test_too_little_is_no_program(notes: list[dict[str, Any]]) -> None:
    assert issued_in(notes, 2) is None


def test_a_collective_that_is_not_written_is_no_program() -> None:
    assert program_of(known(*(note(rank, "0", SUM, "coalesced float32[2]") for rank in (0, 1)))) is None


FAILURE = Failure(
    "failed", "sync.collective_mismatch", "SYN206", "t", "one", 1, 2, "OutOfStep", "at job.py:#, in main()"
)
BEFORE = known(note(0, "0", SUM, SUM), note(1, "0", SUM, "barrier"))


def test_the_same_collectives_at_the_end_stand_for_the_line() -> None:
    found = replace(FAILURE, at=(("job.py", 9),), words="at job.py:#", title="other")
    shifted = known(note(0, "0", SUM, SUM, first=5), note(1, "0", SUM, "barrier", first=5))
    assert difference_alone(FAILURE, found, BEFORE, shifted) is None
    assert difference_alone(FAILURE, replace(found, cause="net.peer_lost"), BEFORE, shifted) == "cause: net.peer_lost"
    swapped = known(note(1, "0", SUM, SUM), note(0, "0", SUM, "barrier"))
    assert str(difference_alone(FAILURE, found, BEFORE, swapped)).startswith("collectives: ")
    later = known(note(0, "0", SUM, SUM, SUM), note(1, "0", SUM, SUM, "barrier"))
    assert str(difference_alone(FAILURE, found, BEFORE, later)).startswith("collectives: ")
    assert difference_alone(FAILURE, None, BEFORE, shifted) == "it did not fail"
