# SPDX-License-Identifier: Apache-2.0
"""Hellos, beats and starts, and a leader with two nodes."""

from __future__ import annotations

import dataclasses

from keepstep.supervise.nodes.agent.lease import KILL_S, LEASE_S
from keepstep.supervise.nodes.lead.membership import Membership
from keepstep.supervise.nodes.messages import NEVER, Beat, Heard, Hello, Start, State, Welcome
from keepstep.supervise.start.layout import Layout

SAFE_S = LEASE_S + KILL_S
HELLO = Hello(
    run="r", node=0, host="a", address=None, version="1", python="3.11.7", program="p", per_node=2, attempt=NEVER
)


def start(attempt: int) -> Start:
    return Start(attempt=attempt, layout=Layout())


def beat(number: int = 1, attempt: int = NEVER, state: State = State.IDLE) -> Beat:
    return Beat(number=number, attempt=attempt, state=state)


def hello(node: int, **other: object) -> Hello:
    return dataclasses.replace(HELLO, **{"node": node, "host": f"h{node}", **other})  # type: ignore[arg-type]


def two(*, first: bool | None = True) -> Membership:
    """A leader with two nodes, each on the connection that is its own number."""
    members = Membership(run="r", version="1", nodes=3, now=0.0, first=first)
    for node in (0, 1):
        assert isinstance(members.hello(node, hello(node), 0.0, connection=node), Welcome)
        assert members.beat(node, beat(), 0.0, connection=node) == Heard(number=1)
    return members
