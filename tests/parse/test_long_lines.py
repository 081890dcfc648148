# SPDX-License-Identifier: Apache-2.0
"""A line of 64 kB costs at most 50 ms, whatever stands in it, and what was not searched of it is said.

The lines are made of what costs most: the anchors of all signatures, between characters that patterns repeat.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from keepstep.analyze.load_tables import known
from keepstep.analyze.scan_logs import scan_logs
from keepstep.model.evidence import CoverageState
from keepstep.model.facts.network import PortTaken
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.lines.block_lines import LONGEST_LINE
from keepstep.parse.scan.lines.long_lines import NEAR
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.patience import PER_LINE_S, LogPatience, set_up
from keepstep.parse.scan.signature import signature
from keepstep.parse.scan.tables import tables
from keepstep.sources.files.file_search import find_files
from tools.slow_patterns import slower_than_usual

MOST_S = 0.05
TIMES = 4
ROOM = 2.0
"""For a busy machine. The best of several counts, scaled to the pace of the machine, and still it varies."""
ORDINARY = b"step 3 loss 0.25\n" * 20_000
"""A log of this size is not taken for one that was pasted from a terminal, so the line is read in another way."""
BETWEEN = (
    "",
    " ",
    " " * 7,
    "\t",
    "1" * 20,
    "a" * 30,
    "[[[[",
    "{",
    "'\"",
    ": ",
    "/x/y.py:1 ",
    "\\n",
    "\x1b[31m",
    "rank 1: ",
    "[1,2]<stdout>:",
    "é",
)
ALONE = (
    *' 1a[({<\\.:/-_=,"|\t\r\x1b',
    "é",
    "INFO ",
    "[rank0]: ",
    "RuntimeError: ",
    "Traceback (most recent call last):",
    'File "x.py", line 1, in f',
)


def _words() -> list[str]:
    signatures, blocks, _ = tables()
    return sorted({anchor for each in (*signatures, *(one.begin for one in blocks)) for anchor in each.anchors})


def _lines() -> dict[str, bytes]:
    choice = random.Random(5)
    words = _words()
    made = {
        f"every word, {between!r} between": [choice.choice(words) + between for _ in range(LONGEST_LINE // 8)]
        for between in BETWEEN
    }
    for _ in range(6):
        few = choice.sample(words, 3)
        made[f"only {few}"] = [choice.choice(few) + " " for _ in range(LONGEST_LINE // 8)]
    for alone in ALONE:
        made[f"only {alone!r}"] = [alone] * LONGEST_LINE
        made[f"a word, then {alone!r}"] = [choice.choice(words) + alone * 300] * 400
    made["the issue's"] = ["expected to be in states ", " " * 60_000, "but current state is"]
    return {name: "".join(parts).encode()[:LONGEST_LINE] + b"\n" for name, parts in made.items()}


LINES = _lines()


def _cost(log: bytes) -> float:
    began = time.thread_time()
    list(LogScan(known()).scan([log]))
    return time.thread_time() - began


@pytest.mark.parametrize("name", LINES)
def test_a_long_line_costs_little(name: str) -> None:
    _cost(LINES[name])  # compiles the patterns that it needs
    for log, without in ((LINES[name], b"\n"), (ORDINARY + LINES[name], ORDINARY)):
        least = float("inf")
        for _ in range(TIMES):
            least = min(least, _cost(log) - _cost(without))
            if least < MOST_S:
                break
        assert least < MOST_S or least / slower_than_usual() < ROOM * MOST_S, (name, least)


def test_what_was_not_searched_of_a_long_line_is_said(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(LINES["every word, ' ' between"])
    _, coverage = scan_logs(find_files([tmp_path]).files)
    assert [each.why for each in coverage if each.state is CoverageState.PARTLY] == [
        "1 long line held too much to search completely"
    ]


def test_a_word_that_comes_again_and_again_is_read_here_and_there_and_to_the_end_of_the_line() -> None:
    knowledge = build([signature(r"port (?P<port>\d+) taken", PortTaken)], ())
    hostile = b"port 1 taken, " * (6 * NEAR // 14) + b"port 2 taken"
    scan = LogScan(knowledge)
    found = [each.fact.port for each in scan.scan([hostile + b"\nport 3 taken\n"]) if isinstance(each.fact, PortTaken)]
    assert found[-1] == 3 and set(found) == {1, 3}
    assert len(found) < 20 and not scan.patience.cut_lines


def test_a_short_line_is_read_whatever_the_machine_does_meanwhile() -> None:
    """A collection of garbage in a large process took longer than a line may: its second fact was gone."""
    time_flies = iter(range(0, 10_000)).__next__
    scan = LogScan(
        build([signature(r"port (?P<port>\d+) taken", PortTaken)], ()), patience=LogPatience(1e9, time_flies)
    )
    found = [
        each.fact.port
        for each in scan.scan([b"port 1 taken, port 2 taken\nport 3 taken\n"])
        if isinstance(each.fact, PortTaken)
    ]
    assert 1 in found and 3 in found and not scan.patience.cut_lines


def test_the_time_to_compile_and_import_on_first_use_is_not_the_lines() -> None:
    patience = LogPatience()
    patience.begin(0)
    with set_up():
        _spend(2 * PER_LINE_S)
    assert patience.goes_on()
    _spend(2 * PER_LINE_S)
    assert not patience.goes_on()


def _spend(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
