# SPDX-License-Identifier: Apache-2.0
"""No text in a log can make a pattern of the package slow: each is attacked with texts made from the pattern itself.

The limit is 50 ms of processor time on 8 kB. Where one attack takes longer, the best of four counts, scaled to the pace
of the machine (``tools.slow_patterns.KNOWN_S``), so a busy or slow machine fails nothing.
``python -m tools.slow_patterns`` tries more texts, and shows the slow one. What stands in measured_patterns.txt was
measured before: `make test` attacks what is new, `make test-all` everything.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.attack_strings import QUICK
from tools.slow_patterns import Asked, every_pattern, measure_all, of_tables

SHARDS = 4
BEFORE = Path(__file__).with_name("measured_patterns.txt")

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


@pytest.fixture(scope="module")
def every() -> list[Asked]:
    return every_pattern()


def test_no_new_pattern_is_slow() -> None:
    """In a process of its own: to find all patterns it loads all frameworks, and each fork after that would be slow."""
    command = [sys.executable, "-m", "tools.slow_patterns", "--quick", "--new-since", str(BEFORE)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=BEFORE.parents[2], check=False)
    assert done.returncode == 0 and "patterns on 8 kB: 0 slower" in done.stdout, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_pattern_is_slow(shard: int, every: list[Asked]) -> None:
    slow = [each for each in measure_all(every[shard::SHARDS], QUICK) if each.slow]
    assert not slow, "\n".join(
        f"{each.seconds * 1000:.0f} ms: {each.asked.where} {each.asked.pattern!r} on {each.text[:80]!r}"
        for each in slow
    )


@pytest.mark.long
def test_patterns_of_all_kinds_are_attacked(every: list[Asked]) -> None:
    by_place = {each.where: each for each in every}
    assert len(every) > 4000
    assert {
        "tables",
        "keepstep.parse.scan.lines.prefix._NCCL",
        "keepstep.parse.formats.gdb_text._SOURCE",
    } <= by_place.keys()
    assert {each.pattern for each in of_tables()} <= {each.pattern for each in every}
    assert any(where.startswith("keepstep.rules.") for where in by_place)
    assert any(where.startswith("keepstep.base.redact") for where in by_place)
    assert by_place["keepstep.parse.formats.gdb_text._SOURCE"].uses == {"fullmatch"}
    assert by_place["keepstep.signals.stacks._HANDLERS"].most == 2000


@pytest.mark.parametrize("pattern", SLOW)
def test_the_attacks_find_patterns_that_are_slow(pattern: str) -> None:
    (found,) = measure_all([Asked("here", pattern)], QUICK)
    assert found.slow, (pattern, found.seconds)


@pytest.mark.parametrize(
    ("pattern", "use"), [(r"\s*\d*\s*", "fullmatch"), (r"[^,\[]*(?:\[\w*\][^,\[]*)*(?:,|$)", "findall")]
)
def test_a_pattern_is_asked_as_its_module_asks_it(pattern: str, use: str) -> None:
    asked = [Asked("here", pattern, uses=frozenset({each})) for each in ("match", use)]
    assert [found.slow for found in measure_all(asked, QUICK)] == [False, True]


def test_a_pattern_that_does_not_come_to_an_end_is_named_and_the_others_are_measured() -> None:
    every = [Asked("one", "plain"), Asked("two", r"(?:a|aa|a+)*$x"), Asked("three", "plain too")]
    found = list(measure_all(every, QUICK))
    assert [each.asked.where for each in found] == ["one", "two", "three"]
    assert [each.slow for each in found] == [False, True, False]
    assert found[1].text.startswith("aaaa")


def test_what_is_linear_or_looks_at_little_is_not_called_slow() -> None:
    asked = [
        Asked("here", r"rank (?P<rank>\d{1,5}) failed: [^\n]{0,200}"),
        Asked("here", r"(?P<name>[\w.]+)\s+is not there", most=400),
    ]
    assert not any(found.slow for found in measure_all(asked, QUICK))


@pytest.mark.long
def test_every_pattern_compiles(every: list[Asked]) -> None:
    for each in every:
        re.compile(each.pattern, each.flags)
