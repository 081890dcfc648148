# SPDX-License-Identifier: Apache-2.0
"""No pattern of the tables can be made slow by what stands in a log: each is attacked with texts made from the pattern itself.

``python -m tools.slow_patterns`` tries more of them, on every other pattern of the package too, and shows the text.
"""

from __future__ import annotations

import re
import time

import pytest

from tools.attack_strings import QUICK
from tools.slow_patterns import Asked, every_pattern, measure, measure_all, of_tables

SHARDS = 8
MOST_S = 0.25
"""On 8 kB, with room for a busy machine. `tools.slow_patterns` shows those over 50 ms."""

SLOW = (
    r"expected to be in states?\s+[^\n]{0,120}?\s+but\s+current\s+state\s+is",
    r"foo[^\n]{0,300}\s+\s*bar",
    r"(?:a+)+b",
    r"(?P<name>[\w.]+)\s+is not there",
    r"\{'loss': (?:\d[\d,]*\.?\d*)(?:e\d+)?,",
    r"begin .*?middle .*?then .*?end",
    r"x(?:\w+=\S+\s+)*\S*python",
    r"(?=[^\n]*\w+\s*=\s*\w+$)",
)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_pattern_of_a_table_is_slow(shard: int) -> None:
    every = of_tables()
    assert len(every) > 3000
    slow = [each for each in measure_all(every[shard::SHARDS], QUICK) if each.seconds > MOST_S]
    assert not slow, "\n".join(f"{each.seconds * 1000:.0f} ms: {each.asked.where} {each.asked.pattern!r} on {each.text[:80]!r}" for each in slow)


def test_patterns_of_all_kinds_are_attacked() -> None:
    every = every_pattern()
    where = {each.where for each in every}
    assert len(every) > 4000
    assert {"tables", "keepstep.parse.prefix._NCCL", "keepstep.core.redact._NOTHING"} <= where
    assert {each.pattern for each in of_tables()} <= {each.pattern for each in every}
    assert any(each.where.startswith("keepstep.rules.") for each in every)


@pytest.mark.parametrize("pattern", SLOW)
def test_the_attacks_find_patterns_that_are_slow(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.slow_patterns.HANGS_S", 2.0)
    (found,) = measure_all([Asked("here", pattern)], QUICK)
    assert found.slow, (pattern, found.seconds)


def test_a_pattern_that_does_not_come_to_an_end_is_named_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.slow_patterns.HANGS_S", 0.5)
    every = [Asked("one", "plain"), Asked("two", r"(?:a|aa|a+)*$x"), Asked("three", "plain too")]
    found = list(measure_all(every, QUICK))
    assert [each.asked.where for each in found] == ["one", "two", "three"]
    assert [each.slow for each in found] == [False, True, False]


def test_what_is_linear_is_not_called_slow() -> None:
    assert not measure(Asked("here", r"rank (?P<rank>\d{1,5}) failed: [^\n]{0,200}"), QUICK).slow


def test_one_long_line_of_blanks_is_read_at_once() -> None:
    from keepstep.analyze.known import known
    from keepstep.parse.logscan import LogScan

    line = b"expected to be in states " + b" " * 60_000 + b"but current state is\n"
    began = time.thread_time()
    list(LogScan(known()).scan([line]))
    assert time.thread_time() - began < 2.0


def test_every_pattern_of_a_table_compiles() -> None:
    for each in every_pattern():
        re.compile(each.pattern, each.flags)
