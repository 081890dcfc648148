# SPDX-License-Identifier: Apache-2.0
"""The judge: the same cause, line, exception and circumstances, or refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from keepstep.shrink.program import Edits, Program
from keepstep.shrink.same_failure import (
    Failure,
    common,
    difference,
    failure_of,
    failure_of_json,
    other_numbers,
    without_numbers,
)

TEXT = """\
def step(loss, rank):
    if loss > 3:
        raise ValueError(f"loss {loss}")
"""


def seen(**raised: Any) -> dict[str, Any]:
    root = {"severity": "fatal", "cause": "user.code_exception", "rule": "USR001", "title": "t", "ranks": [1]}
    about = {"rank": 1, "at": 1.0, "type": "ValueError", "message": "loss nan", "file": "job.py", "line": 3}
    about |= {"values": {"loss": "not finite", "rank": "int"}, "stack": [["job.py", 3]]}
    about |= {"again": True, "not_finite": ["job.py", 1]}
    return {
        "report": {"verdict": "failed", "findings": [root]},
        "values": [{**about, **raised}],
        "exits": [],
        "stacks": [],
    }


def failure(**raised: Any) -> Failure:
    program = Program({"job.py": TEXT})
    found = failure_of(seen(**raised), program, program.made(Edits()), 2)
    assert found is not None
    return found


def test_where_the_rank_was_for_which_others_waited_is_part_of_the_failure() -> None:
    program = Program({"job.py": TEXT})
    found = []
    for line in (1, 2):
        frames = [{"file": "time.py", "line": 1}, {"file": "job.py", "line": line}, {"file": "job.py", "line": 3}]
        stacks = [
            {"fact": "StackDump", "rank": {"index": rank}, "fields": {"frames": frames[rank:]}} for rank in (0, 1)
        ]
        judged = failure_of({**seen(rank=0), "stacks": stacks}, program, program.made(Edits()), 2)
        assert judged is not None
        found.append(judged)
    assert found[0].elsewhere == (("job.py", 1), ("job.py", 3)) and found[0].elsewhere == found[0].places[-2:]
    assert difference(found[0], found[1]) == f"elsewhere: {found[1].elsewhere}"
    both = common(found[0], found[1])
    assert both is not None and difference(both, found[1]) is None
    assert failure_of_json(json.loads(json.dumps(asdict(found[0])))) == found[0]
    assert failure().elsewhere is None, "it raised itself"


def test_the_same_failure_with_other_numbers_is_the_same() -> None:
    assert difference(failure(message="loss 12.5 at (3, 4)"), failure(message="loss 7 at (1, 2, 3)")) is None


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        ({"type": "KeyError"}, "raised"),
        ({"message": "gradient nan"}, "words"),
        ({"line": 2}, "at"),
        ({"rank": 0}, "who"),
        ({"values": {"loss": "float"}}, "loss was not finite, is float"),
        ({"again": False}, "again"),
        ({"not_finite": ["job.py", 2]}, "not_finite"),
        ({"stack": [["job.py", 2], ["job.py", 3]]}, "it was called from elsewhere"),
    ],
)
def test_another_failure_is_refused(raised: dict[str, Any], why: str) -> None:
    found = difference(failure(), failure(**raised))
    assert found is not None and found.startswith(why)


def test_nothing_but_wrong_numbers_are_not_one_among_many() -> None:
    one, all_of_them = failure(values={"loss": "Tensor int64"}), failure(values={"loss": "Tensor int64 of one number"})
    assert difference(one, all_of_them) is not None
    assert difference(all_of_them, one) is None, "a single one may be left"


def test_what_spawn_tells_of_its_process_is_what_that_process_raised() -> None:
    told = """

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/site-packages/torch/multiprocessing/spawn.py", line 87, in _wrap
    fn(i, *args)
  File "job.py", line 3, in step
    raise ValueError(f"loss {loss}")
ValueError: loss nan
"""
    found = failure(type="ProcessRaisedException", message=told, rank=0, line=1, values={}, stack=[["job.py", 1]])
    assert found.raised == "ValueError" and found.words == "loss nan" and found.at == (("job.py", 3),), found
    assert difference(replace(failure(), at=found.at), found) is None


def test_another_cause_and_no_failure_are_refused() -> None:
    assert difference(failure(), replace(failure(), cause="resource.shm")) == "cause: resource.shm"
    assert difference(failure(), None) == "it did not fail"


def test_words_keep_nan_and_lose_shapes() -> None:
    assert without_numbers("loss nan at 0x7f1 (4x32 and 64x10), item 3") == "loss nan at # (# and #), item #"


SHAPES = "mat1 and mat2 shapes cannot be multiplied (8x48 and 64x10)"


@pytest.mark.parametrize(
    ("message", "literal", "free", "same"),
    [
        (SHAPES, {}, False, True),
        (SHAPES.replace("48", "32"), {}, False, False),
        (SHAPES.replace("48", "32"), {"48": {"32"}, "64": {"64"}, "8": {"8"}}, False, True),
        (SHAPES.replace("48", "32"), {"48": {"48"}, "64": {"64"}}, False, False),
        (SHAPES.replace("48", "32"), {"12": {"8"}}, False, True),
        (SHAPES.replace("48", "64"), {"12": {"16"}}, False, False),
        (SHAPES.replace("8x", "32x"), {}, True, True),
    ],
)
def test_sizes_in_a_message_follow_the_programs_own_numbers(
    message: str, literal: dict[str, set[str]], free: bool, same: bool
) -> None:
    assert (other_numbers(failure(message=SHAPES), failure(message=message), literal, free=free) is None) == same


def test_an_index_may_be_another_but_stays_beyond_the_size() -> None:
    index = failure(message="index 17 is out of bounds for dimension 0 with size 16")
    other = failure(message="index 19 is out of bounds for dimension 0 with size 16")
    within = failure(message="index 3 is out of bounds for dimension 0 with size 16")
    assert other_numbers(index, other, {}, free=False) is None
    assert other_numbers(index, within, {}, free=False) is not None


def hang(*lines: int) -> Failure:
    program = Program({"job.py": TEXT})
    root = {"severity": "fatal", "cause": "sync.deadlock_or_hang_waiting_rank", "rule": "R", "title": "t", "ranks": [1]}
    library = {"file": "/lib/torch.py", "line": 9}
    frames = [[library, {"file": "job.py", "line": line}] for line in lines]
    stacks = [{"fact": "StackDump", "fields": {"frames": each}} for each in frames]
    said = {"report": {"verdict": "hung", "findings": [root]}, "values": [], "exits": [], "stacks": stacks, "logs": {}}
    found = failure_of(said, program, program.made(Edits()), 2)
    assert found is not None
    return found


def test_a_hang_is_the_same_if_ranks_are_stuck_in_the_same_lines() -> None:
    assert hang(2, 3).at == (("job.py", 2), ("job.py", 3))
    assert difference(hang(2, 3), hang(3, 2)) is None
    assert difference(hang(2, 3), hang(3, 3)) is not None


def test_a_crash_is_told_by_its_signal_and_the_line_of_the_fault_handler() -> None:
    program = Program({"job.py": TEXT})
    root = {"severity": "fatal", "cause": "user.native_crash", "rule": "R", "title": "t", "ranks": [1]}
    log = 'Fatal Python error: Segmentation fault\n\nThread 0x01 (most recent first):\n  File "job.py", line 2 in f\n'
    log += '\nCurrent thread 0x02 [python] (most recent call first):\n  File "/lib/c.py", line 4 in f\n'
    log += '  File "job.py", line 3 in step\n  File "job.py", line 1 in <module>\n\nExtension modules: x (total: 1)\n'
    exits = [{"fact": "ProcessExited", "fields": {"signal": "SIGSEGV"}, "rank": {"index": 1}}]
    said = {"report": {"verdict": "failed", "findings": [root]}, "values": [], "exits": exits, "stacks": []}
    found = failure_of({**said, "logs": {"rank1.log": log}}, program, program.made(Edits()), 2)
    assert found is not None
    assert (found.signal, found.at, found.who) == ("SIGSEGV", (("job.py", 3),), "one")
    assert found.through == (("job.py", 1), ("job.py", 3))
    lost = {"rank": 0, "at": 1.0, "type": "RuntimeError", "message": "closed", "file": "job.py", "line": 2}
    also = failure_of({**said, "values": [lost], "logs": {"rank1.log": log}}, program, program.made(Edits()), 2)
    assert also is not None and also.raised is None and also.at == found.at, "what others raise follows from it"


def test_what_differs_between_two_runs_of_the_original_is_no_part_of_its_failure() -> None:
    both = common(failure(), failure(message="loss of k", values={"loss": "float", "rank": "int"}))
    assert both is not None and both.words is None and failure().held and not both.held
    assert difference(both, failure(message="anything")) is None
    assert common(failure(), failure(line=2)) is None and common(failure(), None) is None
    assert failure_of_json(json.loads(json.dumps(asdict(failure())))) == failure()


@pytest.mark.parametrize("raised", [[], [{"rank": 1, "at": 1.0, "type": "RuntimeError", "line": 2}]])
def test_collectives_that_differ_are_known_by_their_lines_not_by_what_noticed_them(
    raised: list[dict[str, Any]],
) -> None:
    program = Program({"job.py": TEXT})
    title = "rank 0 issued all_reduce float32[] at job.py:3, in step(); rank 1 issued barrier at job.py:2, in step()"
    root = {"severity": "fatal", "cause": "sync.collective_mismatch", "rule": "R", "title": title, "ranks": [0]}
    report = {"verdict": "failed", "findings": [root]}
    said = {"report": report, "values": raised, "exits": [], "stacks": [], "logs": {}}
    found = failure_of(said, program, program.made(Edits()), 2)
    assert found is not None
    assert (found.at, found.raised, found.who) == ((("job.py", 2), ("job.py", 3)), None, "several")
