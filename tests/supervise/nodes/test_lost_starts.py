# SPDX-License-Identifier: Apache-2.0
"""A start that is lost with a connection is sent again, to the same process and never to another one."""

from __future__ import annotations

from keepstep.supervise.nodes.agent.lease import Lease
from keepstep.supervise.nodes.lead.membership import Membership, Vacant
from keepstep.supervise.nodes.messages import Heard, State, Welcome
from tests.supervise.nodes.memberships import SAFE_S, beat, hello, start


def with_start(*, agent: str = "a") -> Membership:
    """Attempt 0 was opened on nodes 0 and 1; the connection of node 1 is made anew before the start reached it."""
    members = Membership(run="r", version="1", nodes=3, now=0.0, first=True)
    for node in (0, 1):
        members.hello(node, hello(node, agent="a"), 0.0, connection=node)
        members.beat(node, beat(), 0.0, connection=node)
    members.started(0, [0, 1], 0.1)
    members.hello(1, hello(1, agent=agent, call=1), 0.3, connection=7)
    return members


def test_a_start_that_was_lost_with_a_connection_is_sent_again_once_the_same_process_has_a_lease() -> None:
    members = with_start()
    assert not members.unasked(1), "the agent has no lease on this connection yet"
    assert members.beat(1, beat(2), 0.4, connection=7) is not None
    assert members.unasked(1) and not members.unasked(0)
    members.asked(1)
    assert not members.unasked(1)
    assert not members.tick(0.5), "nobody is missed"
    assert members.blocking(0.5).keys() == {0, 1}
    members.beat(1, beat(3, 0, State.RUNS), 5.0, connection=7)
    assert members.blocking(5.0)[1] == SAFE_S


def test_the_welcome_lets_a_start_that_is_sent_again_pass() -> None:
    members = with_start()
    welcome = members.hello(1, hello(1, agent="a", call=2), 0.4, connection=8)
    lease = Lease(0.0)
    lease.beat(0.5, state=State.IDLE)
    lease.welcomed(welcome if isinstance(welcome, Welcome) else Welcome())
    lease.heard(Heard(number=1), 0.6)
    assert lease.may_start(start(0), 0.7)
    assert not lease.may_start(start(0), 0.7)


def test_a_lost_start_is_not_sent_to_another_process_of_the_node() -> None:
    members = with_start(agent="b")
    members.beat(1, beat(2), 2.6, connection=7)
    assert not members.unasked(1)


def test_a_new_process_gets_no_start_of_an_attempt_that_the_old_one_may_run() -> None:
    members = with_start()
    members.lost(1, "closed", 0.5, connection=7)
    members.hello(1, hello(1, agent="b"), 0.6, connection=9)
    members.beat(1, beat(1), 0.7, connection=9)
    assert not members.unasked(1)
    assert Vacant(node=1, attempt=0) in members.tick(0.8)
    assert 1 in members.blocking(0.8), "until the lease of the old one is over"
    assert 1 not in members.blocking(0.3 + SAFE_S + 0.1)


def test_an_attempt_that_was_called_off_is_over_where_its_start_was_lost() -> None:
    members = with_start()
    members.call_off(0)
    assert members.blocking(0.4).keys() == {0}
    members.beat(1, beat(2), 0.4, connection=7)
    assert not members.unasked(1)


def test_an_attempt_that_was_called_off_is_not_over_where_its_start_is_under_way() -> None:
    members = with_start()
    members.asked(1)
    members.call_off(0)
    assert members.blocking(0.4).keys() == {0, 1}
