# SPDX-License-Identifier: Apache-2.0
"""Which candidates the reductions try, of a program that is run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from keepstep.shrink import reductions
from keepstep.shrink.job_command import JobCommand
from keepstep.shrink.options_and_parameters import options_as_constants, parameters
from keepstep.shrink.own_waits import shorter_waits, with_own_waits
from keepstep.shrink.program import Edits, Node, Program, Rendered, uid
from keepstep.shrink.same_failure import ABSENT, Failure, carried
from keepstep.shrink.search import Search
from keepstep.shrink.trials import Trials

VALUES = """\
import random


def draw(low, parts):
    return random.Random(low).randrange(low, parts)


def passed(net):
    return net


def share(parts=3, most=4):
    shares = []
    for _ in range(most):
        shares.append(draw(0, parts))
    if parts > 2:
        shares[1] = 0
    chosen = passed(shares)
    for number in chosen:
        print(1 / number)


share()
"""


def test_a_number_or_a_condition_that_feeds_the_failing_line_stays() -> None:
    order = [reductions.parts, reductions.wrappers]
    search = searched(VALUES, 20, order, again=(20,))
    text = search.program.made(search.best)["job.py"].text
    assert "shares.append(draw(0, parts))" in text and "randrange(low, parts)" in text, text
    assert "chosen = shares" in text and "def passed" not in text, text
    assert "if parts > 2" not in text, "it was asked once"
    search = searched(VALUES, 20, order, again=(16, 17, 20))
    assert "if parts > 2" in search.program.made(search.best)["job.py"].text


TEXT = """\
import json
import types

share = types.SimpleNamespace(parts=1)
rows = json.loads("[1, 2]")
json.dumps(rows)
setattr(share, "parts", int(json.loads("0")))
setattr(share, "whole", 1)
setattr(share, "name", json.loads('"x"'))
print(share.name, share.whole / share.parts)
"""


@dataclass
class InThisProcess(Search):
    tried: list[str] = field(default_factory=list)

    def _fails(self, edits: Edits, made: Mapping[str, Rendered]) -> bool:
        text = made["job.py"].text
        self.tried.append(text)
        self.count += 1
        self.last, sys.argv = None, ["job.py", *edits.words]
        try:
            exec(compile(text, "job.py", "exec"), {})
        except ZeroDivisionError:
            return True
        except Exception as error:
            assert error.__traceback__ is not None
            trace = error.__traceback__.tb_next
            while (
                trace is not None
                and trace.tb_next is not None
                and trace.tb_next.tb_frame.f_code.co_filename == "job.py"
            ):
                trace = trace.tb_next
            place = carried("job.py", trace.tb_lineno, made) if trace is not None else None
            self.last = replace(self.failure, at=(place,) if place else ())
        return False


def searched(
    text: str,
    failing: int,
    reduce: Sequence[Callable[[Search], None]],
    words: tuple[str, ...] = (),
    idle: Sequence[int] = (),
    apart: Sequence[int] = (),
    again: Sequence[int] = (),
) -> InThisProcess:
    trials = Trials(".", (), {})
    try:
        launch = JobCommand(python="python", script="job.py", words=words, ranks=None, by="python")
        search = InThisProcess(trials, launch, {}, 60.0)
        search.program = Program({"job.py": text})
        search.executed = {("job.py", line) for line in range(1, len(text.splitlines()) + 1) if line not in idle}
        search.apart = {("job.py", line) for line in apart}
        search.again = {("job.py", line) for line in again}
        at = (("job.py", failing),)
        failure = Failure("failed", "user.code_exception", "", "", "only", raised="ZeroDivisionError", at=at)
        search._begin_with(failure, Edits(words=words))
        for each in reduce:
            each(search)
    finally:
        trials.close()
    return search


def test_imports_go_with_their_users_and_are_not_tried_themselves() -> None:
    search = searched(TEXT, 10, [reductions.slices, reductions.statements, reductions.once_more])
    left = search.program.made(search.best)["job.py"].text
    assert "rows" not in left and "setattr(share" in left and "import json" in left
    without = [text for text in search.tried if "import json" not in text]
    assert len(without) == 1, "only all at once"


def test_where_there_is_an_accelerator_the_cpu_is_tried_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reductions, "DEVICES", (str(tmp_path / "accel*"),))
    search = searched(TEXT, 10, [reductions.device])
    assert search.on_cpu is None and not search.best.on_cpu
    (tmp_path / "accel0").touch()
    search = searched(TEXT, 10, [reductions.device])
    assert search.on_cpu and search.variables(search.best)["CUDA_VISIBLE_DEVICES"] == ""


OPTIONS = """\
import argparse
from dataclasses import dataclass


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--half", action="store_true")
    return parser.parse_args()


@dataclass
class Settings:
    rows: int = 9
    parts: int = 3
    name: str = "x"


def said(text):
    if len(text) > 1:
        print(text)


def share(args, settings, noise):
    said("sharing")
    assert noise
    return args.width * settings.rows / (settings.parts if not args.half else 1)


class Half:
    def __init__(self):
        self.rows = 7

    def half(self):
        return 1


Half().half()
args = parse()
said(f"{args.width} wide")
share(args, Settings(rows=4, parts=args.parts), args.half)
"""


def test_options_are_constants_and_what_only_hands_them_on_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [])
    order = [reductions.at_once, options_as_constants, parameters]
    search = searched(OPTIONS, 28, order, words=("--parts", "0", "--width=6"))
    left = search.program.made(search.best)["job.py"].text
    assert left.startswith("def share():\n    return 6 * 4 / 0\n") and left.endswith("Half().half()\nshare()\n"), left
    assert search.best.words == () and search.count == 3


LOADS = """\
import json as np


def load(path, count):
    return 1 / count


np.loads("1")
rows = [np.load(open(path)) for path in []]
load(np, 0)
"""


def test_a_function_of_a_module_is_not_the_programs_own_of_that_name() -> None:
    search = searched(LOADS, 5, [parameters])
    left = search.program.made(search.best)["job.py"].text
    assert "np.load(open(path))" in left and "load(0)" in left and search.count == 1


IDLE = """\
import argparse


def load(path):
    print(path)
    state = [path]
    return len(state)


parser = argparse.ArgumentParser()
parser.add_argument("--parts", type=int, default=0)
step = load("x") if [] else 0
if [1]:
    print("said")
with open(__import__("os").devnull) as read:
    rows = read.readlines()
for parts in [parser.parse_args().parts]:
    print(rows, step, 1 / parts)
"""


def test_one_statement_that_must_stay_does_not_keep_the_others() -> None:
    search = searched(IDLE, 18, [reductions.at_once], idle=(5, 6, 7))
    left = search.program.made(search.best)["job.py"].text
    assert search.count == 1 and "said" not in left and "def load(path):\n    pass\n" in left, left
    search = searched(IDLE, 18, [reductions.at_once, options_as_constants], idle=(5, 6, 7))
    left = search.program.made(search.best)["job.py"].text
    assert search.count == 2 and "argparse" not in left and "def load" in left, left


def test_the_last_look_begins_with_everything_that_is_left() -> None:
    search = searched(IDLE, 18, [reductions.once_more])
    assert search.count == 1 and "said" not in search.tried[0] and "print(path)" not in search.tried[0]


def test_what_names_tell_is_not_tried() -> None:
    search = searched(IDLE, 18, [reductions.wrappers])
    assert "if [1]" not in search.program.made(search.best)["job.py"].text
    assert all("with open" in each for each in search.tried)
    search = searched(IDLE, 18, [reductions.statements])
    assert all("--parts" in each for each in search.tried)


HOOKS = """\
marks = {}


def mark(name):
    marks[name] = []


mark("made")
marks["made"].append(1)
rows = list(marks["made"])
rows[0] += 1
print(1 / 0)
"""


def test_what_fails_for_want_of_what_is_gone_goes_too() -> None:
    search = searched(HOOKS, 12, [lambda search: reductions._reduce(search, [mark_of(search)])])
    assert search.program.made(search.best)["job.py"].text == "marks = {}\nprint(1 / 0)\n"
    assert search.count == 3


def mark_of(search: Search) -> Node:
    node = search.program.statement_at("job.py", 8)
    assert node is not None
    return uid(node)


CHOOSES = """\
def share(rank, step):
    if step > 5:
        return 2
    if rank != 1 or step != 3:
        return 1
    return 0


for step in range(9):
    print(1 / share(1, step))
"""


def test_what_decides_when_it_comes_to_the_fault_stays() -> None:
    search = searched(CHOOSES, 10, [reductions.statements, reductions.once_more], idle=(3,))
    text = search.program.made(search.best)["job.py"].text
    assert "    if rank != 1 or step != 3:\n        return 1\n" in text and "step > 5" not in text, text


STORES = """\
import os
import tempfile


def store(path):
    with open(path, "w") as out:
        out.write("0")


noise = len(tempfile.gettempdir())
noise += 1
path = os.path.join(tempfile.mkdtemp(), "x")
store(path)
with open(path) as stream:
    print(1 / int(stream.read()))
"""


def test_what_writes_the_files_that_are_read_is_not_taken_away_at_first() -> None:
    search = searched(STORES, 15, [reductions.slices])
    text = search.program.made(search.best)["job.py"].text
    assert search.count == 1 and "noise" not in text and "out.write" in text and "store(path)" in text, text
    search.last = replace(search.failure, at=(("job.py", 14),), held=((ABSENT, "missing in 1 parts"),))
    wrote, read = (search.program.statement_at("job.py", line) for line in (7, 12))
    assert wrote is not None and read is not None
    assert search.suspects({uid(wrote)}) == {uid(wrote)} and search.failed_at() is None


WAITS = """\
from datetime import timedelta

SHORT = timedelta(minutes=2)


def begin(timeout, seconds):
    print(timeout, seconds)


begin(timeout=timedelta(seconds=30.0), seconds=50)
begin(timeout=2, seconds=50)
print(1 / (SHORT.seconds - SHORT.seconds))
"""


def test_trials_wait_less_and_the_result_as_long_as_ever() -> None:
    search = searched(WAITS, 12, [])
    search.patience_s = 0.0
    shorter_waits(search)
    assert search.count == 0, "it was never silent"
    search.patience_s = 9.0
    shorter_waits(search)
    text = search.program.made(search.best)["job.py"].text
    assert "timedelta(seconds=3), seconds=50" in text and "timedelta(minutes=0.05)" in text and "timeout=2" in text, (
        text
    )
    assert search.program.made(with_own_waits(search))["job.py"].text == WAITS


RANKS = """\
print([rank for rank in range(3) if rank == 2 or (rank + 2) % 2 == 0 or rank > 2])
if 2 in (2, 5):
    print(1 / 0)
"""


def test_with_fewer_ranks_only_what_tells_the_failing_one_from_others_changes() -> None:
    search = searched(RANKS, 3, [])
    search._wanted = replace(search.failure, rank=2)
    edits = reductions._as_many(search, replace(search.best, ranks=3), 2)
    text = search.program.made(edits)["job.py"].text
    assert "rank == 1 or (rank + 2) % 2 == 0 or rank > 2" in text and edits.ranks == 2


def test_one_rank_alone_does_not_take_over_what_others_wait_for() -> None:
    asked: list[Edits] = []
    search = searched(RANKS, 3, [])
    search.best = replace(search.best, ranks=2)
    search.same = lambda edits, **_: bool(asked.append(edits))  # type: ignore[method-assign,func-returns-value]
    for cause, tried in (("sync.deadlock_or_hang_waiting_rank", [False]), ("user.code_exception", [True, False])):
        search._wanted = replace(search.failure, rank=1, cause=cause)
        search.program = Program({"job.py": RANKS.replace("rank == 2", "rank == 1")})
        assert not reductions._with_ranks(search, 1)
        assert [bool(edits.numbers) for edits in asked] == tried
        asked.clear()


LACKS = """\
def rows(rank):
    found = [0]
    if rank != 1:
        found.append(1)
        print("more")
    return found


count = sum(rows(1))
print(1 / count)
"""


def test_what_other_ranks_had_and_the_failing_one_lacked_stays() -> None:
    search = searched(LACKS, 10, [reductions.at_once, reductions.statements, reductions.once_more], apart=(4, 5))
    text = search.program.made(search.best)["job.py"].text
    assert "if rank != 1:\n        found.append(1)\n    return" in text, text
