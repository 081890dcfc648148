# SPDX-License-Identifier: Apache-2.0
"""What a simulation of many nodes consists of: agents, leaders, connections, ranks. simulated.py makes them move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from keepstep.supervise.nodes.agent.lease import Lease
from keepstep.supervise.nodes.lead.membership import Membership
from keepstep.supervise.nodes.messages import State


@dataclass(slots=True, eq=False)
class Ranks:
    """The processes of one attempt on one node, with the reaper that watches over them."""

    node: int
    agent: Agent
    attempt: tuple[int, int]
    """Which leader's, and its number: two leaders may give the same."""
    until: float
    dead: bool = False
    killed: bool = False


@dataclass(slots=True, eq=False)
class Connection:
    agent: Agent
    leader: Leader
    newest: dict[str, float] = field(default_factory=lambda: {"up": 0.0, "down": 0.0})
    held: dict[str, list[Callable[[], None]]] = field(default_factory=lambda: {"up": [], "down": []})


@dataclass(slots=True, eq=False)
class Agent:
    node: int
    skew: float
    lease: Lease
    connection: Connection | None = None
    joined: bool = False
    since: float = 0.0
    late: float = 0.0
    """How late it learns what the engine says: 0 at once, 1 last of all."""
    ranks: Ranks | None = None
    alive: bool = True
    asleep: bool = False
    inbox: list[Callable[[], None]] = field(default_factory=list)
    calls: int = 0
    """Connections made so far."""

    @property
    def state(self) -> State:
        if self.ranks is None or self.ranks.dead:
            return State.IDLE
        return State.ENDS if self.ranks.killed else State.RUNS


@dataclass(slots=True, eq=False)
class Leader:
    serial: int
    node: int
    skew: float
    membership: Membership
    connections: dict[int, Connection] = field(default_factory=dict)
    attempt: int | None = None
    parts: list[int] = field(default_factory=list)
    alive: bool = True
    asleep: bool = False
    inbox: list[Callable[[], None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cut:
    """No packet leaves a node (``out``), reaches it (``in``), or both."""

    node: int
    way: str
    begin: float
    end: float
