# SPDX-License-Identifier: Apache-2.0
"""The rounds of the tournament: every host meets every other once, and only slow links are measured again."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.check.network.tournament import (
    ENOUGH,
    FEW,
    MOST_AGAIN,
    TIMES_AGAIN,
    Pair,
    hold,
    how_many,
    in_turns,
    measured_again,
    rounds,
    suspects,
)
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.links import LinkProbed

FAST = 1e9


def link(source: int, target: int, rate: float = FAST, quickest: float = 1e-4, again: bool = False) -> Evidence[Fact]:
    fact = LinkProbed(source=str(source), target=str(target), rate_bytes_s=rate, quickest_s=quickest, again=again)
    return Evidence(fact=fact, origin=Origin(source="a test"))


@pytest.mark.parametrize("players", range(0, 34))
def test_every_two_meet_once_and_nobody_plays_twice_in_a_round(players: int) -> None:
    played = list(rounds(players))
    assert len(played) == how_many(players) == (0 if players < 2 else players - 1 if players % 2 == 0 else players)
    for pairs in played:
        busy = [host for pair in pairs for host in pair]
        assert len(busy) == len(set(busy))
        assert len(pairs) == players // 2
    met = Counter(pair for pairs in played for pair in pairs)
    assert set(met) == {(a, b) for a in range(players) for b in range(a + 1, players)}
    assert set(met.values()) <= {1}


def test_each_pair_calls_in_both_directions() -> None:
    calls: list[Pair] = []

    def play(pairs: object, again: bool) -> list[Evidence[Fact]]:
        calls.extend(pairs)  # type: ignore[call-overload]
        return []

    hold(5, play)
    assert sorted(calls) == [(a, b) for a in range(5) for b in range(5) if a != b]


@settings(deadline=None)
@given(st.integers(2, 50), st.integers(1, 80), st.text())
def test_a_sample_is_the_same_in_every_process_and_gives_each_host_as_many_rounds(
    players: int, most: int, seed: str
) -> None:
    chosen = list(rounds(players, most, seed))
    assert chosen == list(rounds(players, most, seed))
    assert len(chosen) == min(most, how_many(players))


def test_a_sample_of_many_thousands_of_hosts_is_made_at_once() -> None:
    chosen = list(rounds(50_000, 2, "a job"))
    assert [len(pairs) for pairs in chosen] == [25_000, 25_000]


def test_only_links_far_behind_are_suspect_and_the_worst_come_first() -> None:
    found = [link(a, b) for a in range(8) for b in range(8) if a != b]
    found += [link(8, 0, FAST / 5), link(8, 1, FAST / 100), link(8, 2, FAST / 3), link(8, 3, FAST, quickest=0.05)]
    assert [(fact.source, fact.target) for fact in suspects(found)] == [("8", "1"), ("8", "0"), ("8", "3")]


@pytest.mark.parametrize("hosts", [3, 4, 5, 32])
def test_one_slow_host_is_suspect_in_a_cluster_of_any_size(hosts: int) -> None:
    slow = hosts - 1
    found = [link(a, b, FAST / 700 if slow in (a, b) else FAST) for a in range(hosts) for b in range(hosts) if a != b]
    assert {frozenset((f.source, f.target)) for f in suspects(found)} == {
        frozenset((str(a), str(slow))) for a in range(slow)
    }


def test_nothing_is_suspect_where_nothing_was_measured() -> None:
    assert suspects([]) == []


def test_a_second_look_is_bounded_and_few_are_on_the_network() -> None:
    found = [link(a, b, 1e5 if a < 12 and b < 12 else FAST) for a in range(60) for b in range(60) if a != b]
    groups: list[list[Pair]] = []

    def play(pairs: object, again: bool) -> list[Evidence[Fact]]:
        assert again
        groups.append(list(pairs))  # type: ignore[call-overload]
        return []

    measured_again(found, lambda fact: (int(fact.source), int(fact.target)), play)
    assert 0 < sum(map(len, groups)) <= TIMES_AGAIN * MOST_AGAIN
    assert max(map(len, groups)) <= FEW
    assert max(Counter(host for group in groups for pair in group for host in pair).values()) <= TIMES_AGAIN * ENOUGH


def test_who_was_well_the_second_time_is_not_measured_a_third_time() -> None:
    found = [link(a, b, 1e5 if (a, b) == (1, 2) else FAST) for a in range(6) for b in range(6) if a != b]
    groups: list[list[Pair]] = []

    def play(pairs: object, again: bool) -> list[Evidence[Fact]]:
        groups.append(list(pairs))  # type: ignore[call-overload]
        return [link(1, 2, FAST, again=True)]

    measured_again(found, lambda fact: (int(fact.source), int(fact.target)), play)
    assert groups == [[(1, 2)]]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1]), unique=True))
def test_no_host_is_in_two_pairs_of_a_turn(pairs: list[Pair]) -> None:
    turns = list(in_turns(pairs))
    assert sorted(pair for turn in turns for pair in turn) == sorted(pairs)
    for turn in turns:
        assert len({host for pair in turn for host in pair}) == 2 * len(turn)
