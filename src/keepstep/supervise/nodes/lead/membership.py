# SPDX-License-Identifier: Apache-2.0
"""Who takes part, who is silent, and where an earlier attempt may still live: the leader's half of the leases.

A new attempt may start only when :meth:`Membership.blocking` is empty. A node leaves it in one of three ways. Its agent
says :class:`Ended`; or it says that it is idle and names that attempt; or it was not heard until the longest lease
that it was ever given is over, and :data:`KILL_S` more: then its ranks are dead, whether it is down, cut off or frozen.

Pure, like the agent's `lease`: no clock, no socket, no thread. ``connection`` is any object that stands for one: what
arrives on an older one than the node's newest is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from keepstep.base.wording import count
from keepstep.supervise.nodes.agent.lease import KILL_S, LEASE_S, SILENT_S
from keepstep.supervise.nodes.messages import NEVER, Beat, Heard, Hello, Refused, State, Welcome

OWN_GAP_S = 1.0
"""A leader that did not get to run for this long gives all nodes another :data:`SILENT_S` to be heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What :meth:`Membership.tick` reports, each once."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentNode(News):
    """It was not heard for :data:`SILENT_S` (longer with a longer lease). Its ranks may run on: nothing is decided."""

    since_s: float
    why: str | None = None
    """Why its connection ended, if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(News):
    """A silent one is heard again."""

    away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(News):
    """It has been silent until its lease was surely over, so its ranks are dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacant(News):
    """It takes no part any more in the attempt that it was to start, whether or not the leader wanted that.

    It ended its ranks, its lease is over, or its agent is a new process.
    """

    attempt: int


@dataclass(slots=True, kw_only=True)
class NodeMember:
    """What the leader knows about a node that has said hello."""

    hello: Hello
    """Its newest one."""
    connection: object | None
    heard: float
    state: State
    attempt: int
    """The newest attempt that its agent was asked to start, as it says."""
    steps: int = 0
    quiet_s: float | None = None
    leased: bool = False
    """A beat on its newest connection was answered, so it has a lease when a start arrives there."""
    safe: float = -math.inf
    """All leases that were ever given to it are over then, and what they allowed is dead."""
    unasked: bool = False
    """The start of the attempt was lost with a connection, and is to be sent again to the same process."""
    lost: str | None = None
    silent: bool = False
    expired: bool = False
    open: int | None = None
    """The attempt that may have processes there."""
    until: float = 0.0
    """Until when it may, if nothing more is heard."""
    renews: bool = True
    """Whether its beats come from the agent that may run it, and so make that longer."""
    done: int = NEVER
    """The newest attempt that is over there for sure."""


class Membership:
    """The nodes of a run, as the leader sees them.

    ``nodes``: how many the engine has, the spare ones too; they are numbered from 0. ``first``: there was no leader of
    this run before, so nothing can run yet; None: that is not known, and agents that come tell. ``term_s``: for how
    long the engine's word that this process leads is good. Where another process may become leader while this one
    lives, give it: this leader is one only for ``term_s`` after each :meth:`confirmed`, and listens to agents only
    ``term_s`` after its own start, when its predecessor has noticed that it leads no longer. ``lease_s``: how long the
    leases are that it gives, and ``longest_s`` those of agents that ask for more (None: no longer ones), the same for
    every leader of a run: a successor waits for the longest. ``own``: the hello of the leader's own node, if it has
    one: what that node runs is what all must run. Else it is what the first agent runs.
    """

    def __init__(
        self,
        *,
        run: str,
        version: str,
        nodes: int,
        now: float,
        first: bool | None = False,
        term_s: float | None = None,
        lease_s: float = LEASE_S,
        longest_s: float | None = None,
        own: Hello | None = None,
    ) -> None:
        self._lease_s, self._longest_s = lease_s, max(lease_s, longest_s or 0.0)
        self.safe_s = lease_s + KILL_S
        """A node with the usual lease that has been silent for this long has no ranks left, whatever became of it."""
        self._run, self._version, self.nodes = run, version, nodes
        self._term_s = term_s
        self._confirmed = now
        self._deposed = False
        self.opens = now + (term_s or 0.0) if first is False else now
        """From when on to accept connections."""
        self.newest_attempt = self._called_off = NEVER
        self._members: dict[int, NodeMember] = {}
        self._inherited = NEVER
        """The newest attempt of an earlier leader, as far as agents have told."""
        self._is_first = first
        self._first = own
        self._news: list[News] = []
        self.crowded = False
        """The leader's own host has far more to do than it can: it will be late to answer, whoever asks."""
        self._ticked = self._awake = now
        self._slept = -math.inf, 0.0

    # --- leading

    def confirmed(self, now: float) -> None:
        """The engine says that this process leads. ``now``: when it was asked, not when it answered."""
        if self.leads(now):
            self._confirmed = max(self._confirmed, now)

    def supersede(self) -> None:
        """The engine says that another process leads."""
        self._deposed = True

    def hears(self, hosts: Collection[str], now: float) -> bool:
        """Whether all nodes are connected and were heard a moment ago, except those known to be on other hosts."""
        for node in range(self.nodes):
            member = self._members.get(node)
            if member is None:
                return False
            if member.hello.host in hosts and (member.connection is None or now - member.heard > SILENT_S):
                return False
        return True

    def leads(self, now: float) -> bool:
        """Whether this process may still answer and start anything.

        Once it may not, it never may again: if the engine still names this process, make a new :class:`Membership`.
        """
        if self._term_s is not None and now >= self._confirmed + self._term_s:
            self._deposed = True
        return not self._deposed

    # --- what arrives

    def hello(self, node: int, hello: Hello, now: float, *, connection: object) -> Welcome | Refused:
        """An agent wants to take part, for the first time or again."""
        if now < self.opens or not self.leads(now):
            return Refused(why="the process there does not lead the run now", again=True)
        why = _refusal(hello, run=self._run, version=self._version, nodes=self.nodes, first=self._first)
        member = self._members.get(node)
        same = member is not None and bool(hello.agent) and hello.agent == member.hello.agent
        if why is None:
            self._learn(hello.attempt)  # also of a second agent for a node: the first may know less
            if member is not None and same:
                if hello.call < member.hello.call:
                    return Refused(why="a later connection of this agent has come already", again=True)
            elif member is not None and member.connection is not None and now - member.heard <= SILENT_S:
                why = _taken(hello, member.hello, now - member.heard)
        if why is not None:
            return Refused(why=why)
        self._first = self._first or hello
        if member is None:
            member = NodeMember(hello=hello, connection=connection, heard=now, state=hello.state, attempt=hello.attempt)
            self._members[node] = member
        member.hello, member.connection, member.lost = hello, connection, None
        member.leased = member.unasked = False
        self._settle(node, member, now)
        if member.open is not None and hello.attempt < member.open:
            if same and member.renews and hello.state is State.IDLE and member.open == self.newest_attempt:
                # Lost with the connection: what comes on an older one than its newest, an agent does not look at.
                member.unasked = True
                self._forgo(node, member)
            else:  # the start may have reached an earlier process, whose lease these beats do not renew
                self._tell_vacant(node, member)
                member.renews = False
        self._says(node, member, hello.attempt, hello.state, now)
        return Welcome(attempt=self.newest_attempt - member.unasked, lease_s=self._lease_s)

    def beat(self, node: int, beat: Beat, now: float, *, connection: object) -> Heard | None:
        """A node lives. None: do not answer, because an answer would give it a lease."""
        member = self._members.get(node)
        if member is None or member.connection != connection or not self.leads(now):
            return None
        member.steps, member.quiet_s, member.leased = beat.steps, beat.quiet_s, True
        self._settle(node, member, now)
        wanted = self._longest_s if self.crowded else beat.wants_s or 0.0
        lease_s = min(max(wanted, self._lease_s), self._longest_s)
        member.safe = max(member.safe, now + lease_s + KILL_S)
        self._says(node, member, beat.attempt, beat.state, now)
        return Heard(number=beat.number, lease_s=lease_s if lease_s > self._lease_s else None)

    def unasked(self, node: int) -> bool:
        """Whether the newest start must be sent to this node again: it has a lease on its newest connection now."""
        member = self._members.get(node)
        return member is not None and member.unasked and member.leased

    def lost(self, node: int, why: str, now: float, *, connection: object) -> None:
        """Its connection ended. The node itself may be well, and its ranks may run."""
        member = self._members.get(node)
        if member is not None and member.connection == connection:
            member.connection, member.lost = None, why

    def ended(self, node: int, attempt: int, *, connection: object) -> None:
        """Its agent says that no process of this attempt lives there any more (or none that could be killed)."""
        member = self._members.get(node)
        if member is None or member.connection != connection:
            return
        if member.open is not None and member.open <= attempt:
            self._close(node, member, attempt)

    def _learn(self, attempt: int) -> None:
        if attempt > self.newest_attempt:
            self.newest_attempt = self._inherited = attempt

    def _says(self, node: int, member: NodeMember, attempt: int, state: State, now: float) -> None:
        if member.silent:
            self._news.append(Returned(node=node, away_s=now - member.heard))
        member.silent = member.expired = False
        member.heard, member.state, member.attempt = now, state, attempt
        self._learn(attempt)
        if state is State.IDLE:
            member.done = max(member.done, attempt)
            if member.open is not None and member.open <= attempt:
                self._close(node, member, attempt)
        elif attempt > member.done and (member.open is None or member.open < attempt):
            member.open, member.renews = attempt, True
        if member.open is not None and member.renews:
            member.until = max(now + self.safe_s, member.safe)

    # --- what the leader does

    def started(self, attempt: int, nodes: Iterable[int], now: float) -> None:
        """These nodes will be asked to start. Called just before the starts are sent on their newest connections.

        Raises ``ValueError`` if that could make two attempts run at once.
        """
        if not self.leads(now) or attempt <= self.newest_attempt or self.blocking(now):
            raise ValueError(f"attempt {attempt} cannot start now: {self.newest_attempt=}, {self.blocking(now)=}")
        self.newest_attempt = attempt
        for node in nodes:
            member = self._members[node]
            member.open, member.renews = attempt, True
            member.until = max(member.heard + self.safe_s, member.safe)

    def asked(self, node: int) -> None:
        """A start was sent on this node's newest connection."""
        if (member := self._members.get(node)) is not None:
            member.unasked = False

    def call_off(self, attempt: int) -> None:
        """This attempt is to end: its start will be sent to no node again."""
        self._called_off = max(self._called_off, attempt)
        for node, member in self._members.items():
            self._forgo(node, member)

    def _forgo(self, node: int, member: NodeMember) -> None:
        """Nothing of an attempt that was called off runs where its start was lost: none is under way there."""
        if member.unasked and member.open is not None and member.open <= self._called_off:
            self._close(node, member, member.open)

    def tick(self, now: float) -> list[News]:
        """What has changed. To be called several times per second, after what has arrived was handled."""
        gap, self._ticked = now - self._ticked, now
        if gap > OWN_GAP_S:
            self._awake = now  # this process was not run: what the others sent meanwhile has yet to be read
        if gap >= self._lease_s:
            self._slept = now, gap
        for node, member in self._members.items():
            if not member.silent and now - max(member.heard, self._awake) > self._patience_s(member):
                member.silent = True
                self._news.append(SilentNode(node=node, since_s=now - member.heard, why=member.lost))
            if member.silent and not member.expired and now > max(member.heard + self.safe_s, member.safe):
                member.expired = True
                self._news.append(Expired(node=node))
            self._settle(node, member, now)
        news, self._news = self._news, []
        return news

    def slept_s(self, now: float) -> float:
        """For how long this process was not run of late, if that was for longer than a lease; else 0.

        Then no node is to blame for what it lost: nobody answered it.
        """
        at, gap = self._slept
        return gap if now - at <= self._longest_s + KILL_S else 0.0

    def _settle(self, node: int, member: NodeMember, now: float) -> None:
        """Close an attempt that nothing can run any more."""
        if member.open is not None and member.until < now:
            self._close(node, member, member.open)

    def _close(self, node: int, member: NodeMember, attempt: int) -> None:
        self._tell_vacant(node, member)
        member.open, member.renews, member.unasked = None, True, False
        member.done = max(member.done, attempt)

    def _tell_vacant(self, node: int, member: NodeMember) -> None:
        if member.open is not None and member.renews:
            self._news.append(Vacant(node=node, attempt=member.open))

    # --- what the leader asks

    def blocking(self, now: float) -> dict[int, float]:
        """The nodes that may still have processes of an attempt, each with the seconds until they cannot."""
        found = self._may_have_inherited(now)
        for node, member in self._members.items():
            if member.open is not None and member.until >= now:
                found[node] = max(member.until - now, found.get(node, 0.0))
        return found

    def _may_have_inherited(self, now: float) -> dict[int, float]:
        """The nodes that may run what an earlier leader started: all whose agent has not said that it is over there.

        An agent that names no attempt, or an earlier one, may be a new process beside ranks of an old one. As long as
        nobody has named an attempt and it is not known whether there was one, only nodes that have not come may.
        """
        left = self.opens + self._longest_s + KILL_S - now
        if self._is_first or left < 0:
            return {}
        if self._is_first is None and self._inherited == NEVER:
            return {node: left for node in range(self.nodes) if node not in self._members}
        done = {node: member.done for node, member in self._members.items()}
        over = max(self._inherited, NEVER + 1)
        return {node: left for node in range(self.nodes) if done.get(node, NEVER) < over}

    def present(self, now: float) -> list[int]:
        """The nodes that can take part in an attempt: with a connection and a lease, and not busy ending ranks."""
        return sorted(
            node
            for node, member in self._members.items()
            if member.leased and self.is_heard(member, now) and member.state is not State.ENDS
        )

    def is_heard(self, member: NodeMember, now: float) -> bool:
        """Whether it is connected and was heard a moment ago."""
        return member.connection is not None and now - member.heard <= self._patience_s(member)

    def _patience_s(self, member: NodeMember) -> float:
        """After this long without a word it is silent. An agent with a longer lease beats less often."""
        return SILENT_S * max((member.safe - KILL_S - member.heard) / self._lease_s, 1.0)

    def spares(self, now: float, needed: int) -> list[int]:
        """The present nodes beyond those needed. Nodes that took part in the newest attempt are not spare first."""
        ordered = sorted(self.present(now), key=lambda node: (self._members[node].attempt < self.newest_attempt, node))
        return ordered[needed:]

    def missing(self) -> list[int]:
        """The nodes of the engine that are not connected."""
        known = self._members
        return [node for node in range(self.nodes) if node not in known or known[node].connection is None]

    def member(self, node: int) -> NodeMember | None:
        return self._members.get(node)


def _refusal(new: Hello, *, run: str, version: str, nodes: int, first: Hello | None) -> str | None:
    """Why this agent cannot take part, as one sentence; None: it can.

    ``run`` and ``version`` are the leader's own. ``first``: the agent whose program is the run's.
    """
    who = f"host {new.host} (node {new.node})"
    if new.run != run:
        return f"{who} belongs to another run: its run is {new.run}, this one is {run}"
    if not 0 <= new.node < nodes:
        return f"{who} has a number that this run does not have: it has {count(nodes, 'node')}, numbered from 0"
    if new.version != version:
        return f"{who} has keepstep {new.version}, but the leader has keepstep {version}: install the same version"
    if first is None:
        return None
    other = f"host {first.host} (node {first.node})"
    if _minor(new.python) != _minor(first.python):
        return f"{who} has Python {new.python}, but {other} has Python {first.python}: use the same Python on all nodes"
    if new.program != first.program:
        return (
            f"{who} has another command or script than {other}: its hash is {new.program}, that of {first.host} "
            f"is {first.program}; give all nodes the same script and arguments"
        )
    if new.per_node != first.per_node:
        return f"{who} has {_ranks(new.per_node)}, but {other} has {_ranks(first.per_node)}: give the same --per-node"
    return None


def _taken(new: Hello, old: Hello, silent_s: float) -> str:
    """Why a second agent for the same node cannot take part."""
    return (
        f"host {new.host} wants to be node {new.node}, but host {old.host} is node {old.node} already and was heard "
        f"{silent_s:.1f} s ago: start one agent per node, each with a number of its own"
    )


def _minor(python: str) -> tuple[str, ...]:
    """``3.11`` of ``3.11.7``: processes of one minor version understand each other."""
    return tuple(python.split(".")[:2])


def _ranks(per_node: int | None) -> str:
    return "no --per-node" if per_node is None else f"--per-node {per_node}"
