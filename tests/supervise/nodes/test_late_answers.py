# SPDX-License-Identifier: Apache-2.0
"""Leases on crowded hosts, where answers come late although nothing is broken."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from keepstep.supervise.nodes.agent.lease import BEAT_S, KILL_S, LEASE_S, LONGEST_S, SILENT_S, Lease
from keepstep.supervise.nodes.lead.membership import Membership, SilentNode, Vacant
from keepstep.supervise.nodes.messages import Heard, State
from tests.supervise.nodes.memberships import SAFE_S, beat, hello, two


def test_an_agent_whose_answers_come_late_asks_for_a_longer_lease_and_beats_less_often() -> None:
    lease = Lease(0.0)
    first = lease.beat(0.0, state=State.IDLE)
    assert first is not None and first.wants_s is None
    lease.heard(Heard(number=1), 4.0)
    second = lease.beat(4.0, state=State.IDLE)
    assert second is not None and second.wants_s == 16.0
    lease.heard(Heard(number=2, lease_s=16.0), 4.1)
    assert lease.left_s(4.1) == pytest.approx(15.9)
    assert not lease.is_deaf(4.1 + 1.9 * SILENT_S) and lease.is_deaf(4.1 + 2.1 * SILENT_S)
    beats = [at / 10 for at in range(50, 250) if lease.beat(at / 10, state=State.IDLE) is not None]
    assert {round(b - a, 3) for a, b in itertools.pairwise(beats[2:])} == {2 * BEAT_S}


def test_an_answer_that_came_too_late_to_be_of_use_counts_as_late() -> None:
    lease = Lease(0.0)
    lease.beat(0.0, state=State.IDLE)
    lease.heard(Heard(number=1), LEASE_S + 1.0)
    assert lease.is_over(LEASE_S + 1.0)
    again = lease.beat(LEASE_S + 1.0, state=State.IDLE)
    assert again is not None and again.wants_s == LONGEST_S


def test_an_agent_forgets_how_late_answers_were() -> None:
    lease, now, wants = Lease(0.0), 0.0, []
    for _ in range(300):
        sent = lease.beat(now, state=State.IDLE)
        if sent is not None:
            wants.append(sent.wants_s)
            lease.heard(Heard(number=sent.number), now + (4.0 if sent.number == 1 else 0.01))
        now += BEAT_S
    assert wants[1] == 16.0 and wants[-1] is None


def test_the_leader_waits_for_the_longest_lease_that_it_gave() -> None:
    members = Membership(run="r", version="1", nodes=2, now=0.0, first=True, longest_s=LONGEST_S)
    for node in (0, 1):
        members.hello(node, hello(node), 0.0, connection=node)
        members.beat(node, beat(), 0.0, connection=node)
    late = dataclasses.replace(beat(2), wants_s=20.0)
    assert members.beat(1, late, 1.0, connection=1) == Heard(number=2, lease_s=20.0)
    assert members.beat(1, dataclasses.replace(beat(3), wants_s=1e9), 1.5, connection=1) == Heard(
        number=3, lease_s=LONGEST_S
    )
    assert members.beat(1, beat(4), 2.0, connection=1) == Heard(number=4)
    members.started(0, [0, 1], 2.0)
    assert members.blocking(2.0) == {0: SAFE_S - 2.0, 1: 1.5 + LONGEST_S + KILL_S - 2.0}
    assert not [each for each in members.tick(2.0 + SAFE_S + 0.1) if each == Vacant(node=1, attempt=0)]
    assert members.blocking(2.0 + SAFE_S + 0.1).keys() == {1}
    assert Vacant(node=1, attempt=0) in members.tick(1.5 + LONGEST_S + KILL_S + 0.1)


def test_a_leader_that_gives_no_longer_leases_gives_the_usual_one() -> None:
    members = two()
    assert members.beat(1, dataclasses.replace(beat(2), wants_s=20.0), 1.0, connection=1) == Heard(number=2)


def test_a_node_with_a_longer_lease_is_named_later() -> None:
    members = Membership(run="r", version="1", nodes=2, now=0.0, first=True, longest_s=LONGEST_S)
    members.hello(0, hello(0), 0.0, connection=0)
    members.beat(0, dataclasses.replace(beat(), wants_s=16.0), 0.0, connection=0)
    ticks = {at / 4: members.tick(at / 4) for at in range(1, 20)}
    assert [at for at, news in ticks.items() if news] == [2 * SILENT_S + 0.25]


def test_a_successor_waits_for_the_longest_lease_that_its_predecessor_may_have_given() -> None:
    members = Membership(run="r", version="1", nodes=2, now=0.0, first=None, longest_s=LONGEST_S)
    members.hello(0, hello(0), 0.0, connection=0)
    assert members.blocking(SAFE_S + 0.1).keys() == {1}
    assert not members.blocking(LONGEST_S + KILL_S + 0.1)


def test_a_leader_that_was_not_run_for_a_moment_names_nobody_for_what_it_missed() -> None:
    members = two()
    members.started(0, [0, 1], 0.0)
    assert not members.tick(0.2)
    assert not members.tick(2.1), "it was not run for almost two seconds"
    assert not members.tick(3.0) + members.tick(3.9)
    members.beat(0, beat(2, 0, State.RUNS), 4.0, connection=0)
    assert members.tick(4.2) == [SilentNode(node=1, since_s=4.2)]
    assert not members.slept_s(4.2)


def test_a_leader_that_was_not_run_for_longer_than_a_lease_knows_that_it_is_to_blame() -> None:
    members = two()
    members.started(0, [0, 1], 0.0)
    members.tick(0.2)
    assert {type(each) for each in members.tick(20.2)} == {Vacant}, "their leases are over, but nobody was silent"
    assert members.slept_s(20.2) == 20.0
    assert not members.slept_s(40.0)
