# SPDX-License-Identifier: Apache-2.0
"""Several nodes as one crew: the leader, its own agent if it has one, and an attempt on all of them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import platform
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from keepstep import __version__
from keepstep.core.wording import duration
from keepstep.store import hosts
from keepstep.supervise.asked import Asked
from keepstep.supervise.crew import Applied, Trial
from keepstep.supervise.interrupts import Interrupts
from keepstep.supervise.launch import Job
from keepstep.supervise.nodes.agent import Agent
from keepstep.supervise.nodes.agent_terminal import AgentTerminal
from keepstep.supervise.nodes.contact import now
from keepstep.supervise.nodes.first_look import FirstLook
from keepstep.supervise.nodes.gathering import AGAIN_S, FIRST_S, Gathering
from keepstep.supervise.nodes.leader import Leader
from keepstep.supervise.nodes.lease import LEASE_S
from keepstep.supervise.nodes.links import CannotListen, Hub, Link
from keepstep.supervise.nodes.membership import Membership
from keepstep.supervise.nodes.messages import NEVER, Hello, State
from keepstep.supervise.nodes.office import Inherited, Office, Term
from keepstep.supervise.nodes.part import GIVE_UP_S, Part
from keepstep.supervise.nodes.seating import ONLY_WORKERS, Roles
from keepstep.supervise.nodes.secret import Secret
from keepstep.supervise.nodes.world import World
from keepstep.supervise.priority import promptly
from keepstep.supervise.statuses import AS_IT_IS, Statuses
from keepstep.supervise.terminal import Terminal

LARGEST_SCRIPT = 64 << 20
SETTLE_S = 0.5


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
    call: Callable[[], Link] | None = None
    """Reaches the leader, wherever that is now (None: it leads)."""
    address: str | None = None
    """Where the other nodes reach this one; None: as the leader sees it."""
    per_node: int | None = None
    roles: Roles = ONLY_WORKERS
    first_s: float = FIRST_S
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
    over: Callable[[], None] | None = None
    """Called at the end."""
    at_end: Callable[[int], None] | None = None
    """Called in the leader with the run's status, when all is over."""
    give_up_s: float = GIVE_UP_S
    """How long to look for a leader that is gone, with nothing left to run."""


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


def part_of(station: Station, asked: Asked, env: Mapping[str, str]) -> Part:
    assert station.node is not None
    return Part(
        node=station.node,
        host=station.host,
        job=asked.job,
        env=env,
        spares=asked.spares,
        grace_s=asked.grace_s,
        hang_s=asked.hang_timeout_s,
        give_up_s=station.give_up_s,
        office=station.office,
        check=asked.check,
    )


def _hub(station: Station) -> Hub:
    """On the first port that is free. Raises :class:`CannotListen`."""
    host, port = station.listens or (None, None)
    for each in station.ports[:-1]:
        with contextlib.suppress(CannotListen):
            return Hub(station.secret, host, each)
    return Hub(station.secret, host, station.ports[-1] if station.ports else port)


class Nodes:
    """The crew of a leader."""

    def __init__(
        self, station: Station, asked: Asked, env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts
    ) -> None:
        self._station, self._asked, self._env = station, asked, env
        promptly()
        hub = _hub(station)
        office = station.office
        membership = Membership(
            run=station.run,
            version=__version__,
            nodes=station.nodes,
            now=now(),
            first=station.first,
            term_s=office.term_s if office is not None else None,
            lease_s=station.lease_s,
            longest_s=station.longest_s,
        )
        membership.newest_attempt = station.newest
        self._leader = Leader(hub, membership, terminal.say)
        out: set[str] = set()
        self._term = Term(self._leader, office, out, terminal.say) if office is not None else None
        self._gathering = Gathering(
            leader=self._leader,
            least=station.least,
            most=station.most,
            say=terminal.say,
            interrupted=lambda: interrupts.signal,
            interrupt=interrupts.note,
            hurry=lambda: interrupts.again,
            first_look=FirstLook(self._leader, terminal.say, on=asked.check and station.first is not False),
            cwd=asked.job.cwd,
            roles=station.roles,
            as_given=asked.job.as_given,
            grace_s=asked.grace_s,
            first_s=station.first_s,
            again_s=station.again_s,
            tend=station.tend or (list[str]),
            taken_out=out,
        )
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None
        if station.attach is not None:
            station.attach(self._gathering)
        if station.ready is not None:
            station.ready(hub)
        if station.node is not None:
            self._thread = threading.Thread(target=self._serve, args=(hub,), daemon=True, name="keepstep-agent")
            self._thread.start()
        for words in station.words() if station.words is not None else ():
            terminal.say(words)
        if station.first is False:
            self._settle(interrupts, terminal.say)

    def _settle(self, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        """Wait until nothing that an earlier leader started can run, and all nodes have said how far they were."""
        if (past := self._station.past) is not None:
            say(f"{past.lost.host}, which led the run, cannot be reached: {past.why}")
        longest = max(self._leader.blocking().values(), default=0.0)
        say(f"waiting up to {duration(longest)} until nothing that an earlier leader may have started can run")
        while interrupts.signal is None and self._leader.blocking():
            self._leader.end_others()
            self._leader.wait(SETTLE_S)

    def _serve(self, hub: Hub) -> None:
        quiet = AgentTerminal(quiet=self._asked.quiet)
        part = replace(part_of(self._station, self._asked, self._env), leads=True)
        Agent(part, hub.local, hello_of(self._station, self._asked.job), quiet).run()

    @property
    def first_attempt(self) -> int:
        return self._leader.newest_attempt + 1

    def attempt(self, number: int, folder: Path, exchange: Path, applied: Applied, *, may_start_over: bool) -> Trial:
        """The next one, on all nodes or none. Guards meet in a folder on each node, so ``exchange`` is not used."""
        self._folder = folder
        return World(
            number,
            folder,
            self._leader,
            self._gathering,
            applied,
            env=self._env,
            may_start_over=may_start_over,
        )

    def close(self, status: int) -> None:
        self._remember()
        if self._term is not None:
            self._term.end()
        self._leader.close(status)
        if self._thread is not None:
            self._thread.join(timeout=15.0)
        if self._station.over is not None:
            self._station.over()

    def _remember(self) -> None:
        """What this run says about its hosts, for `keepstep runs --hosts` and for the next run."""
        if self._folder is None:
            return
        failures = self._gathering.failures
        own = {host: [each for each in failures if host in each.blamed] for host in self._gathering.took_part.values()}
        hosts.remember(
            hosts.HostRun(
                host=host,
                run=self._folder.parent.name,
                at=time.time(),
                failures=len(each),
                cause=each[-1].what if each else None,
            )
            for host, each in own.items()
        )
