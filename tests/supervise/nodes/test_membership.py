# SPDX-License-Identifier: Apache-2.0
"""The agent's lease and the leader's view of it, step by step. test_one_attempt_at_once has them in a crowd."""

from __future__ import annotations

import pytest

from keepstep.supervise.nodes.agent.lease import BEAT_S, CONNECT_S, DEAF_S, KILL_S, LEASE_S, SILENT_S, Lease
from keepstep.supervise.nodes.lead.membership import Expired, Membership, Returned, SilentNode, Vacant
from keepstep.supervise.nodes.messages import NEVER, Heard, Refused, State, Welcome
from tests.supervise.nodes.memberships import SAFE_S, beat, hello, start, two

# --- the agent


def test_a_node_without_a_lease_starts_nothing() -> None:
    lease = Lease(0.0)
    assert lease.is_over(0.0)
    assert not lease.may_start(start(0), 0.0)


def test_a_lease_counts_from_when_the_beat_was_sent() -> None:
    lease = Lease(0.0)
    first = lease.beat(0.0, state=State.IDLE)
    assert first is not None and first.number == 1
    assert lease.beat(BEAT_S / 2, state=State.IDLE) is None
    lease.heard(Heard(number=1), 3.0)
    assert lease.left_s(3.0) == LEASE_S - 3.0
    assert lease.may_start(start(0), LEASE_S - 0.1)
    assert lease.is_over(LEASE_S)


def test_an_answer_to_a_beat_that_was_never_sent_gives_nothing() -> None:
    lease = Lease(0.0)
    lease.heard(Heard(number=1), 0.0)
    assert lease.is_over(0.0)


def test_an_answer_that_comes_after_a_lease_gives_nothing() -> None:
    lease = Lease(0.0)
    lease.beat(0.0, state=State.IDLE)
    lease.heard(Heard(number=1), LEASE_S)
    assert lease.until is None


def test_an_attempt_starts_once_and_an_older_one_never() -> None:
    lease = Lease(0.0)
    lease.beat(0.0, state=State.IDLE)
    lease.heard(Heard(number=1), 0.1)
    assert lease.may_start(start(3), 0.2)
    assert not lease.may_start(start(3), 0.2)
    assert not lease.may_start(start(2), 0.2)
    lease.welcomed(Welcome(attempt=5))
    assert not lease.may_start(start(5), 0.2)
    assert lease.may_start(start(6), 0.2)


def test_a_new_connection_does_not_renew_the_lease() -> None:
    lease = Lease(0.0)
    lease.beat(0.0, state=State.IDLE)
    lease.heard(Heard(number=1), 0.1)
    lease.connected(5.0)
    assert lease.left_s(5.0) == LEASE_S - 5.0
    assert lease.beat(5.0, state=State.IDLE) is not None
    assert not lease.is_deaf(6.9)
    assert lease.is_deaf(7.1)


# --- who may join


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"run": "s"}, "host h1 (node 1) belongs to another run: its run is s, this one is r"),
        ({"version": "2"}, "host h1 (node 1) has keepstep 2, but the leader has keepstep 1"),
        ({"python": "3.12.1"}, "host h1 (node 1) has Python 3.12.1, but host h0 (node 0) has Python 3.11.7"),
        ({"program": "q"}, "host h1 (node 1) has another command or script than host h0 (node 0): its hash is q"),
        ({"per_node": 4}, "host h1 (node 1) has --per-node 4, but host h0 (node 0) has --per-node 2"),
        ({"per_node": None}, "host h1 (node 1) has no --per-node, but host h0 (node 0) has --per-node 2"),
    ],
)
def test_an_agent_that_differs_is_refused_with_both_values(other: dict[str, object], says: str) -> None:
    members = Membership(run="r", version="1", nodes=2, now=0.0, first=True)
    members.hello(0, hello(0), 0.0, connection=0)
    answer = members.hello(1, hello(1, **other), 0.0, connection=1)
    assert isinstance(answer, Refused)
    assert answer.why.startswith(says)
    assert members.member(1) is None


def test_another_patch_of_the_same_python_may_join() -> None:
    members = two()
    assert isinstance(members.hello(2, hello(2, python="3.11.9"), 0.0, connection=2), Welcome)


def test_a_number_that_the_run_does_not_have_is_refused() -> None:
    answer = two().hello(3, hello(3), 0.0, connection=3)
    assert isinstance(answer, Refused)
    assert "it has 3 nodes, numbered from 0" in answer.why


def test_what_the_leaders_own_node_runs_counts_though_another_one_comes_first() -> None:
    members = Membership(run="r", version="1", nodes=2, now=0.0, first=True, own=hello(0))
    other = members.hello(1, hello(1, program="q"), 0.0, connection=1)
    assert isinstance(other, Refused)
    assert "host h1 (node 1) has another command or script than host h0 (node 0)" in other.why
    assert isinstance(members.hello(0, hello(0), 0.0, connection=0), Welcome)


def test_two_agents_for_one_node_are_refused_until_the_first_is_silent() -> None:
    members = two()
    answer = members.hello(1, hello(1, host="z"), 1.0, connection="new")
    assert isinstance(answer, Refused)
    assert answer.why.startswith("host z wants to be node 1, but host h1 is node 1 already and was heard 1.0 s ago")
    assert isinstance(members.hello(1, hello(1, host="z"), 2.5, connection="new"), Welcome)
    assert members.beat(1, beat(), 2.6, connection=1) is None, "the first one gets no lease any more"


# --- what may still run


def test_a_started_node_blocks_until_it_says_that_it_ended() -> None:
    members = two()
    members.started(0, [0, 1], 0.1)
    assert set(members.blocking(0.2)) == {0, 1}
    members.ended(0, 0, connection=0)
    members.beat(1, beat(2, NEVER, State.IDLE), 0.5, connection=1)
    assert set(members.blocking(0.6)) == {1}, "idle, but it has not got the start yet"
    members.beat(1, beat(3, 0, State.IDLE), 1.0, connection=1)
    assert not members.blocking(1.0)
    assert members.tick(1.0) == [Vacant(node=0, attempt=0), Vacant(node=1, attempt=0)]


def test_a_silent_node_is_named_once_and_blocks_until_its_lease_is_over_for_sure() -> None:
    members = two()
    members.started(0, [0, 1], 0.0)
    told = []
    for quarter in range(60):
        now = quarter / 4
        members.beat(0, beat(2 + quarter, 0, State.RUNS), now, connection=0)
        told += [(now, news) for news in members.tick(now)]
        assert (1 in members.blocking(now)) == (now <= SAFE_S)
    assert told == [
        (2.25, SilentNode(node=1, since_s=2.25)),
        (SAFE_S + 0.25, Expired(node=1)),
        (SAFE_S + 0.25, Vacant(node=1, attempt=0)),
    ]
    members.hello(1, hello(1, attempt=0), 15.0, connection="new")
    assert members.tick(15.0) == [Returned(node=1, away_s=15.0)]


def test_a_leader_that_may_not_be_the_first_waits_for_nodes_that_have_not_come() -> None:
    members = two(first=None)
    assert members.blocking(1.0) == {2: SAFE_S - 1.0}
    members.hello(2, hello(2), 2.0, connection=2)
    assert not members.blocking(2.0), "all have come, and none knows of an attempt"


def test_a_leader_that_meets_an_agent_of_an_earlier_one_waits_for_all_that_do_not_say_that_it_is_over() -> None:
    members = two(first=None)
    members.hello(2, hello(2, attempt=4, state=State.RUNS), 1.0, connection=2)
    assert members.newest_attempt == 4
    assert members.blocking(1.0) == {0: SAFE_S - 1.0, 1: SAFE_S - 1.0, 2: SAFE_S}
    members.beat(2, beat(1, 4, State.IDLE), 2.0, connection=2)
    assert members.blocking(2.0) == {0: SAFE_S - 2.0, 1: SAFE_S - 2.0}
    assert not members.blocking(SAFE_S + 0.1)


def test_the_leader_waits_longer_than_the_lease_that_it_gave_whatever_its_length() -> None:
    members, lease = Membership(run="r", version="1", nodes=1, now=0.0, first=True, lease_s=20.0), Lease(0.0)
    welcome = members.hello(0, hello(0), 0.0, connection=0)
    assert isinstance(welcome, Welcome)
    lease.welcomed(welcome)
    sent = lease.beat(0.0, state=State.IDLE)
    assert sent is not None
    answer = members.beat(0, sent, 0.1, connection=0)
    assert answer is not None
    members.started(0, [0], 0.1)
    lease.heard(answer, 0.2)
    assert lease.may_start(start(0), 0.2)
    assert not lease.is_over(19.9) and lease.is_over(20.0)
    assert members.blocking(20.0 + KILL_S) and not members.blocking(20.2 + KILL_S)


def test_a_new_agent_on_a_node_does_not_prolong_what_the_old_one_may_run() -> None:
    members = two()
    members.started(0, [0, 1], 0.0)
    members.lost(1, "reset", 1.0, connection=1)
    members.hello(1, hello(1), 1.5, connection="new")
    assert Vacant(node=1, attempt=0) in members.tick(1.5)
    for half in range(3, 24):
        members.beat(1, beat(half), half / 2, connection="new")
        members.beat(0, beat(half, 0, State.IDLE), half / 2, connection=0)
        assert (1 in members.blocking(half / 2)) == (half / 2 <= SAFE_S)


def test_the_loss_of_an_old_connection_says_nothing_about_the_new_one() -> None:
    members = two()
    members.lost(1, "reset", 1.0, connection=1)
    assert members.missing() == [1, 2]
    members.hello(1, hello(1), 1.5, connection="new")
    members.lost(1, "reset", 1.6, connection=1)
    assert members.missing() == [2]


def test_a_node_is_present_only_with_a_lease_on_its_newest_connection() -> None:
    members = two()
    assert members.present(1.0) == [0, 1]
    members.lost(1, "reset", 1.0, connection=1)
    assert members.present(1.0) == [0]
    members.hello(1, hello(1), 1.5, connection="new")
    assert members.present(1.5) == [0]
    members.beat(1, beat(2, 0, State.ENDS), 1.6, connection="new")
    assert members.present(1.6) == [0]
    members.beat(1, beat(3, 0, State.IDLE), 1.7, connection="new")
    assert members.present(1.7) == [0, 1]
    assert members.present(3.0) == [1]


def test_a_start_that_could_make_two_attempts_is_an_error() -> None:
    members = two()
    members.started(0, [0, 1], 0.0)
    with pytest.raises(ValueError, match="attempt 1 cannot start now"):
        members.started(1, [0], 1.0)
    members.ended(0, 0, connection=0)
    members.ended(1, 0, connection=1)
    with pytest.raises(ValueError, match="attempt 0 cannot start now"):
        members.started(0, [0], 1.0)


def test_a_node_outside_the_newest_attempt_is_the_spare() -> None:
    members = two()
    members.hello(2, hello(2), 0.0, connection=2)
    members.beat(2, beat(), 0.0, connection=2)
    members.started(0, [1, 2], 0.0)
    for node in (1, 2):
        members.beat(node, beat(2, 0, State.RUNS), 0.5, connection=node)
    assert members.spares(1.0, needed=2) == [0]


# --- leaders


def test_a_new_leader_waits_for_nodes_that_it_has_not_heard() -> None:
    members = Membership(run="r", version="1", nodes=3, now=100.0)
    assert members.blocking(100.0) == dict.fromkeys(range(3), SAFE_S)
    members.hello(0, hello(0, attempt=4, state=State.IDLE), 101.0, connection=0)
    members.hello(1, hello(1, attempt=4, state=State.RUNS), 101.0, connection=1)
    assert members.newest_attempt == 4
    assert members.blocking(101.0) == {1: SAFE_S, 2: SAFE_S - 1.0}
    members.ended(1, 4, connection=1)
    assert members.blocking(100.0 + SAFE_S) == {2: 0.0}
    assert not members.blocking(100.1 + SAFE_S)


def test_an_agent_that_knows_of_no_attempt_does_not_speak_for_an_earlier_one() -> None:
    members = Membership(run="r", version="1", nodes=1, now=100.0)
    members.hello(0, hello(0), 101.0, connection=0)
    assert members.blocking(101.0) == {0: SAFE_S - 1.0}


def test_an_agent_that_is_idle_does_not_speak_for_a_second_one_on_its_node() -> None:
    """The simulation found it: the idle one said hello first, and a newer attempt ran under the other one."""
    members = Membership(run="r", version="1", nodes=2, now=100.0)
    members.hello(0, hello(0, attempt=0), 100.1, connection="idle")
    assert set(members.blocking(100.2)) == {1}
    assert isinstance(members.hello(0, hello(0, attempt=1, state=State.RUNS), 100.3, connection="runs"), Refused)
    assert set(members.blocking(100.4)) == {0, 1}
    assert members.newest_attempt == 1
    assert not members.blocking(100.1 + SAFE_S)


def test_the_first_leader_waits_for_nothing() -> None:
    assert not two().blocking(0.0)


def test_a_leader_whom_the_engine_names_no_longer_gives_no_leases() -> None:
    members = Membership(run="r", version="1", nodes=1, now=0.0, first=True, term_s=4.0)
    members.hello(0, hello(0), 0.0, connection=0)
    members.confirmed(1.0)
    assert members.beat(0, beat(1), 4.9, connection=0) is not None
    assert members.beat(0, beat(2), 5.0, connection=0) is None
    members.confirmed(5.1)
    assert not members.leads(5.1), "another may lead by now"
    assert isinstance(members.hello(0, hello(0), 9.0, connection=1), Refused)


def test_a_leader_that_slept_does_not_call_the_others_silent() -> None:
    members = two()
    members.tick(0.5)
    assert members.tick(6.0) == []
    members.beat(0, beat(2), 6.1, connection=0)
    assert members.tick(7.0) + members.tick(7.9) == []
    assert [type(news) for news in members.tick(8.2)] == [SilentNode, SilentNode]


def test_the_same_agent_may_connect_again_although_it_was_heard_a_moment_ago() -> None:
    """A leader that was busy for seconds reads the last beats of the old connection just before the new hello."""
    members = two()
    assert isinstance(members.hello(1, hello(1, agent="x", call=0), 5.0, connection="first"), Welcome)
    assert members.beat(1, beat(), 5.1, connection="first") is not None
    assert isinstance(members.hello(1, hello(1, agent="x", call=1), 5.1, connection="second"), Welcome)
    assert members.beat(1, beat(), 5.2, connection="first") is None
    assert members.beat(1, beat(), 5.2, connection="second") is not None
    other = members.hello(1, hello(1, agent="y", call=0), 5.3, connection="third")
    assert isinstance(other, Refused) and not other.again


def test_a_hello_of_an_earlier_connection_comes_too_late() -> None:
    members = two()
    assert isinstance(members.hello(1, hello(1, agent="x", call=1), 5.0, connection="second"), Welcome)
    late = members.hello(1, hello(1, agent="x", call=0), 5.1, connection="first")
    assert isinstance(late, Refused) and late.again
    assert members.beat(1, beat(), 5.2, connection="second") is not None


def test_a_connection_that_still_carries_beats_is_kept_for_longer() -> None:
    lease = Lease(0.0)
    lease.connected(0.0)
    assert lease.is_deaf(SILENT_S + 0.1)
    assert not lease.is_deaf(SILENT_S + 0.1, carries=True)
    assert lease.is_deaf(DEAF_S + 0.1, carries=True)
    assert DEAF_S + CONNECT_S < LEASE_S, "there is time for another connection before the ranks must end"


def test_an_agent_that_was_not_run_for_a_while_is_not_deaf() -> None:
    lease = Lease(0.0)
    lease.connected(0.0)
    lease.overslept(7.0)
    assert not lease.is_deaf(7.5)
    assert lease.is_over(7.5), "the lease itself does not care why nothing was heard"
    assert lease.is_deaf(7.0 + SILENT_S + 0.1)
