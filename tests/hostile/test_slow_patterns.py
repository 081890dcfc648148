# SPDX-License-Identifier: Apache-2.0
"""A pattern in a `keepstep.toml` that was merely found cannot stall `why`, whatever it is."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path

import pytest

from keepstep.cli.parser import run
from keepstep.extend import search_apart
from keepstep.extend.search_apart import SearchChild, users_signature
from keepstep.model.facts.platform import SignatureMatched
from keepstep.parse.scan.signature import Signature, signature

TRIED = [r"(a|aa)+b", r".*.*.*.*.*.*b", r"(?:a?){40}a{40}b", r"(a+)+b", r"(?=(a+)+b)"]
LINE = "marker: " + "a" * (64 << 10)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_apart, "LONGEST_S", 0.02)
    monkeypatch.setattr(search_apart, "TOGETHER_S", 0.5)


def generated(number: int) -> str:
    """Repeats of repeats, of alternatives that overlap, with and without looks ahead and references."""
    chance = random.Random(number)

    def part(depth: int) -> str:
        if depth == 0:
            return chance.choice(["a", "aa", "a?", "a*", ".*", ".*?", "[ab]", r"\w+", "a{1,30}"])
        inner = [part(depth - 1) for _ in range(chance.randint(1, 3))]
        made = chance.choice(["(?:{})", "({})", "(?:(?={}))", "(?:{})"]).format(chance.choice(["|", ""]).join(inner))
        return made + chance.choice(["+", "*", "{2,20}", "?", "+?", "", ""])

    return "".join(part(chance.randint(0, 3)) for _ in range(chance.randint(1, 4))) + chance.choice(["b", "$b", "c"])


def made(pattern: str, child: SearchChild) -> Signature:
    def fact(match: re.Match[str]) -> SignatureMatched:
        return SignatureMatched(name="x", groups=tuple((k, v) for k, v in match.groupdict().items() if v))

    return users_signature(signature("marker: " + pattern, fact), "x", child)


def try_all(patterns: list[str]) -> int:
    """How many were given up."""
    child = SearchChild()
    tried = [made(each, child) for each in patterns]
    for each in tried:
        each.read(LINE)
    child.end()
    return sum(each.apart.given_up is not None for each in tried)  # type: ignore[attr-defined]


def test_two_hundred_patterns_on_a_long_line_take_a_bounded_time(quick: None) -> None:
    began = time.process_time()
    wall = time.monotonic()
    assert try_all([generated(number) for number in range(200)]) > 20, "enough of them are slow"
    assert time.process_time() - began < 5 and time.monotonic() - wall < 30


@pytest.mark.long
def test_two_hundred_patterns_with_the_real_limits() -> None:
    wall = time.monotonic()
    assert try_all([generated(number) for number in range(200)]) > 20
    assert time.monotonic() - wall < 3 * search_apart.TOGETHER_S


@pytest.mark.parametrize("pattern", TRIED)
def test_why_ends_and_says_which_pattern_took_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quick: None, pattern: str
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "keepstep.toml").write_text('[rules]\nfolder = "rules"\n')
    (tmp_path / "rules" / "own.toml").write_text(
        f"[[signature]]\nname = 'slow-one'\npattern = 'marker: {pattern}'\ncause = 'resource.contention'\ntitle = 'x'\n"
        "[[signature]]\nname = 'good'\npattern = 'quotad: refused job (?P<job>\\S+)'\ncause = 'resource.contention'\n"
        "title = 'refused {job}'\n"
    )
    (tmp_path / "rank0.log").write_text(f"step 1\n{LINE}\nquotad: refused job j-17\n")
    monkeypatch.chdir(tmp_path)
    status = run(["why", "rank0.log", "--json", "--no-kernel-log", "--seconds-per-file", "2"])
    told = json.loads(capsys.readouterr().out)
    assert status == 1
    assert told["findings"][0]["title"] == "refused j-17", "the others are searched for as before"
    assert any(each["what"] == "your signature slow-one" for each in told["coverage"])


@pytest.mark.parametrize("pattern", [r"(?P<one>\w+) (?P<two>\d+)?", r"x(?P<no>y)?", r"(?P<q>['\"]).*?(?P=q)", r"ü+\b"])
@pytest.mark.parametrize("text", ["marker: job 17", "0: marker: x", "marker: say 'this' now", "ä marker: üü", "none"])
def test_groups_and_places_are_those_of_a_search_here(pattern: str, text: str) -> None:
    child = SearchChild()
    apart = made(pattern, child)
    found = apart.pattern.search(text)
    expected = re.search(apart.expression, text)
    child.end()
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.start() == expected.start() and found.groupdict() == expected.groupdict()
