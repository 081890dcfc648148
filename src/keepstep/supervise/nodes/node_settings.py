# SPDX-License-Identifier: Apache-2.0
"""What a process is in a run on several nodes, as its engine says, and what it says about itself when it connects.

Every agent loads this. What only a leader needs is in :mod:`keepstep.supervise.nodes.lead.nodes_executor`.
"""

from __future__ import annotations

import hashlib
import itertools
import platform
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from keepstep import __version__
from keepstep.supervise.decide.final_status import AS_IT_IS, Statuses
from keepstep.supervise.nodes.agent.lease import LEASE_S
from keepstep.supervise.nodes.connection.interface import Connection
from keepstep.supervise.nodes.connection.secret import Secret
from keepstep.supervise.nodes.lead.placement import ONLY_WORKERS, Roles
from keepstep.supervise.nodes.messages import NEVER, Hello, State
from keepstep.supervise.options import RunOptions
from keepstep.supervise.start.launch import Job
from keepstep.supervise.start.layout import Layout

if TYPE_CHECKING:
    from keepstep.supervise.nodes.connection.hub import Hub
    from keepstep.supervise.nodes.lead.leadership import Inherited, Office
    from keepstep.supervise.nodes.lead.rendezvous import Gathering

FIRST_S = 600.0
"""For the first attempt: pods and jobs do not start at once."""
AGAIN_S = 60.0
"""For a later one: a node that was lost may come back."""
GIVE_UP_S = 90.0
"""An agent that has heard no leader for this long, and has nothing left to run, ends: longer than most network cuts."""
LARGEST_SCRIPT = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Station:
    """What this process is in the run, as its engine says."""

    run: str
    """A name that all nodes agree on, and no other run has."""
    secret: Secret | None
    """None: agents are reached by other means than a port."""
    node: int | None
    """None: it leads, and has no ranks of its own."""
    host: str
    """What this machine is called."""
    least: int
    most: int
    nodes: int
    """How many there may be, the spare ones too."""
    listens: tuple[str | None, int | None] | None = None
    """Where it listens if it leads."""
    ports: tuple[int, ...] = ()
    """Or on one of these ports: the first that is free."""
    call: Callable[[], Connection] | None = None
    """Reaches the leader, wherever that is now (None: it leads)."""
    address: str | None = None
    """Where the other nodes reach this one; None: as the leader sees it."""
    per_node: int | None = None
    roles: Roles = ONLY_WORKERS
    first_s: float = FIRST_S
    more_s: float | None = None
    """How long to wait for more nodes than are needed, before the first attempt; None: as usual."""
    lease_s: float = LEASE_S
    """How long ranks may run without an answer of the leader: longer where a connection cannot be made anew."""
    longest_s: float | None = None
    """The same for nodes whose answers come late. Only where a leader's successor need not be quick."""
    newest: int = NEVER
    """The newest attempt that this node knows of."""
    past: Inherited | None = None
    """What another process that led this run before has left."""
    again_s: float = AGAIN_S
    """How long to wait for a node that was lost."""
    statuses: Statuses = AS_IT_IS
    first: bool | None = True
    """Nobody led this run before; None: that is not known."""
    office: Office | None = None
    """Whose word it is who leads, where another process may take over."""
    words: Callable[[], list[str]] | None = None
    """What the leader says at the start."""
    ready: Callable[[Hub], None] | None = None
    """Called once the hub listens: where agents have to be started, or told where it is."""
    attach: Callable[[Gathering], None] | None = None
    """Called before: for an engine that has news of its own."""
    tend: Callable[[], list[str]] | None = None
    """Called while nodes are awaited: restarts agents, and says why some are missing."""
    ended_here: Callable[[int], str | None] | None = None
    """What ended the connection to a node on the leader's own host, in words; asked once for each loss."""
    over: Callable[[], None] | None = None
    """Called at the end."""
    at_end: Callable[[int], None] | None = None
    """Called in the leader with the run's status, when all is over."""
    give_up_s: float = GIVE_UP_S
    """How long to look for a leader that is gone, with nothing left to run."""
    no_successor: str = ""
    """What the user can do when the leader is gone, where no other process takes over."""


@dataclass(frozen=True, kw_only=True)
class NodePart:
    """What this node contributes."""

    node: int
    host: str
    job: Job
    """What each rank runs here. The leader says which members it has."""
    env: Mapping[str, str]
    spares: bool = True
    grace_s: float = 10.0
    hang_s: float | None = None
    give_up_s: float = GIVE_UP_S
    """How long to look for a leader that is gone; 0: there is only the one connection."""
    no_successor: str = ""
    """What the user can do then."""
    office: Office | None = None
    leads: bool = False
    """The leader runs in this process, too."""
    check: bool = False
    """The fast parts of the check will be asked for."""

    def job_in(self, layout: Layout) -> Job:
        """What this node runs in this layout."""
        if not layout.seats:
            return self.job
        mine = tuple(seat.member for seat in layout.seats if seat.node == self.node)
        total = sum(seat.member.trains for seat in layout.seats)
        return replace(self.job, members=mine, total=total, servers=layout.servers)


def hello_of(station: Station, job: Job) -> Callable[[int, State], Hello]:
    """What this node says when it connects."""
    hello = Hello(
        run=station.run,
        node=station.node or 0,
        host=station.host,
        address=station.address,
        version=__version__,
        python=platform.python_version(),
        program=program_hash(job),
        per_node=station.per_node,
        agent=secrets.token_hex(8),
    )
    calls = itertools.count()
    return lambda attempt, state: replace(hello, wall=time.time(), attempt=attempt, state=state, call=next(calls))


def program_hash(job: Job) -> str:
    """The same on two nodes that would run the same command and script.

    Of the user's own launcher only the scripts count: its arguments differ from node to node (``--node-rank``).
    """
    told = hashlib.sha256()
    for n, word in enumerate(job.command):
        if not job.as_given:
            told.update((Path(word).name if n == 0 else word).encode("utf-8", "surrogateescape") + b"\0")
        path = job.cwd / word
        if n and word.endswith(".py") and path.is_file() and path.stat().st_size < LARGEST_SCRIPT:
            told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()[:16]


def part_of(station: Station, asked: RunOptions, env: Mapping[str, str]) -> NodePart:
    assert station.node is not None
    return NodePart(
        node=station.node,
        host=station.host,
        job=asked.job,
        env=env,
        spares=asked.spares,
        grace_s=asked.grace_s,
        hang_s=asked.hang_timeout_s,
        give_up_s=station.give_up_s,
        no_successor=station.no_successor,
        office=station.office,
        check=asked.check,
    )
