# SPDX-License-Identifier: Apache-2.0
"""Agents and leaders with the real leases and the real messages, over a network and clocks that exist only here.

Time is a number. Every process has a clock of its own, off by minutes. A connection keeps the order of its messages; a
cut holds them back until TCP would send them again; a closed one still delivers to the leader what was under way.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from keepstep.supervise.nodes.agent.lease import BEAT_S, CONNECT_S, KILL_S, LEASE_S, Lease
from keepstep.supervise.nodes.lead.membership import Membership, SilentNode, Vacant
from keepstep.supervise.nodes.messages import (
    NEVER,
    Beat,
    End,
    Ended,
    Happened,
    Heard,
    Hello,
    Message,
    Refused,
    Start,
    State,
    Welcome,
    decode,
    encode,
)
from keepstep.supervise.start.layout import Layout
from tests.supervise.nodes.simulated_parts import Agent, Connection, Cut, Leader, Ranks

LOOK_S = 0.1
TICK_S = 0.25
KILLS_S = KILL_S - 2 * LOOK_S
"""How long killing takes at most, after the end of the lease was noticed."""


class TwoAtOnce(AssertionError):
    """Processes of two attempts lived at once."""


class Simulation:
    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        slowest_s: float = 0.05,
        dropped: float = 0.0,
        term_s: float | None = None,
        late_s: float = 5.0,
        lease_s: float = LEASE_S,
        longest_s: float | None = None,
        unsure: bool = False,
    ) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.nodes, self.slowest_s, self.dropped, self.term_s = nodes, slowest_s, dropped, term_s
        self.lease_s, self.longest_s = lease_s, longest_s
        self.unsure = unsure
        """No leader knows whether there was another one before."""
        self.late_s = late_s
        """How late nodes may learn that another one leads, while the first one lives."""
        self.cuts: list[Cut] = []
        self.living: list[Ranks] = []
        self.starts: list[float] = []
        self.ends: list[tuple[float, str]] = []
        self.named: list[tuple[float, int]] = []
        self.again = 0
        """How many starts were sent again."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.leaders: list[tuple[float, Leader]] = []
        self.new_leader(0, first=True)
        self.agents = [self._agent(node) for node in range(nodes)]

    # --- time

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, what))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = until

    def _is_up(self, process: Agent | Leader, what: Callable[[], None]) -> bool:
        """Whether a process handles something now; one that is stopped does so when it goes on."""
        if process.alive and process.asleep:
            process.inbox.append(what)
        return process.alive and not process.asleep

    # --- the network

    def _passes(self, agent: int, leader: int, way: str) -> bool:
        if agent == leader:
            return True
        sender, receiver = (agent, leader) if way == "up" else (leader, agent)
        return not any(
            cut.begin <= self.now < cut.end
            and ((cut.node == sender and cut.way != "in") or (cut.node == receiver and cut.way != "out"))
            for cut in self.cuts
        )

    def _carry(self, connection: Connection, way: str, what: Callable[[], None]) -> None:
        """Hand over at the other end, after all that went before it."""
        connection.held[way].append(what)
        if len(connection.held[way]) == 1:
            self._pass_on(connection, way, 0.2)

    def _pass_on(self, connection: Connection, way: str, wait_s: float) -> None:
        """Send what is held back; while there is a cut, try again, each time later, as TCP does."""
        if not self._passes(connection.agent.node, connection.leader.node, way):
            self.after(wait_s, lambda: self._pass_on(connection, way, wait_s * 2))
            return
        for what in connection.held[way]:
            arrives = max(self.now + self.random.uniform(0.0005, self.slowest_s), connection.newest[way] + 1e-6)
            connection.newest[way] = arrives
            self.after(arrives - self.now, what)
        connection.held[way].clear()

    def send(self, connection: Connection, way: str, message: Message) -> None:
        if isinstance(message, Beat | Heard) and self.random.random() < self.dropped:
            return
        data = encode(message)
        if way == "up":
            self._carry(connection, way, lambda: self._to_leader(connection, decode(data)))
        else:
            self._carry(connection, way, lambda: self._to_agent(connection, decode(data)))

    # --- agents

    def _agent(self, node: int) -> Agent:
        skew = self.random.uniform(-300, 300)
        late = self.random.random()
        agent = Agent(node=node, skew=skew, lease=Lease(self.now + skew), since=self.now, late=late)
        self.after(self.random.uniform(0, LOOK_S), lambda: self._look(agent))
        return agent

    def _look(self, agent: Agent) -> None:
        if not agent.alive:
            return
        self.after(LOOK_S, lambda: self._look(agent))
        now = self.now + agent.skew
        if agent.ranks is not None and now >= agent.ranks.until:
            self._kill(agent.ranks, "its lease is over", KILLS_S)  # the reaper, also while the agent is stopped
        if agent.asleep:
            return
        if agent.lease.is_over(now) and agent.ranks is not None:
            self._kill(agent.ranks, "its lease is over", KILLS_S)
        leader = self._leader_of(agent)
        if agent.connection is not None and (
            (agent.joined and agent.lease.is_deaf(now))
            or (not agent.joined and self.now - agent.since > CONNECT_S)
            or (agent.connection.leader is not leader and self.random.random() < LOOK_S)
        ):
            self._close(agent)
        if agent.connection is None and self.now >= agent.since:
            self._connect(agent, leader)
        if agent.joined and agent.connection is not None:
            beat = agent.lease.beat(now, state=agent.state)
            if beat is not None:
                self.send(agent.connection, "up", beat)

    def _leader_of(self, agent: Agent) -> Leader:
        """Whom the engine names, as far as it is known on this node; nodes may learn it late, and differ."""
        behind = agent.late if self.random.random() < 0.9 else self.random.random()
        late = self.now - (behind * self.late_s if self.term_s is not None else 0.0)
        return next((leader for since, leader in reversed(self.leaders) if since <= late), self.leaders[0][1])

    def _connect(self, agent: Agent, leader: Leader) -> None:
        connection = Connection(agent, leader)
        agent.connection, agent.joined, agent.since = connection, False, self.now
        self._carry(connection, "up", lambda: self._asked(connection))

    def _asked(self, connection: Connection) -> None:
        """The leader's side of making a connection."""
        leader = connection.leader
        if leader.alive and self.now + leader.skew >= leader.membership.opens:
            self._carry(connection, "down", lambda: self._made(connection))

    def _made(self, connection: Connection) -> None:
        agent = connection.agent
        if agent.connection is not connection or not self._is_up(agent, lambda: self._made(connection)):
            return
        lease = agent.lease
        self.send(
            connection,
            "up",
            Hello(
                **{"run": "r", "node": agent.node, "host": f"h{agent.node}", "address": None, "version": "1"},
                **{"python": "3.11.7", "program": "p", "per_node": 1, "attempt": lease.attempt, "state": agent.state},
                agent=f"a{id(agent)}",
                call=agent.calls,
            ),
        )
        agent.calls += 1

    def _close(self, agent: Agent) -> None:
        connection, agent.connection, agent.joined, agent.since = agent.connection, None, False, self.now + 0.2
        if connection is not None:
            self._carry(connection, "up", lambda: self._lost(connection))

    def _to_agent(self, connection: Connection, message: Message) -> None:
        agent = connection.agent
        if agent.connection is not connection or not self._is_up(agent, lambda: self._to_agent(connection, message)):
            return
        now = self.now + agent.skew
        if isinstance(message, Welcome):
            agent.joined = True
            agent.lease.connected(now)
            agent.lease.welcomed(message)
        elif isinstance(message, Refused):
            self._close(agent)
        elif isinstance(message, Heard):
            agent.lease.heard(message, now)
            if agent.ranks is not None and agent.lease.until is not None:
                agent.ranks.until = agent.lease.until
        elif isinstance(message, Start):
            if agent.lease.may_start(message, now) and agent.state is State.IDLE:
                assert agent.lease.until is not None
                agent.ranks = Ranks(agent.node, agent, (connection.leader.serial, message.attempt), agent.lease.until)
                self.living.append(agent.ranks)
                self._one_attempt_only()
        elif isinstance(message, End) and agent.ranks is not None and agent.ranks.attempt[1] <= message.attempt:
            self._kill(agent.ranks, "asked to", KILLS_S / 2)

    def _kill(self, ranks: Ranks, why: str, longest: float) -> None:
        if ranks.killed:
            return
        ranks.killed = True
        self.ends.append((self.now, why))
        self.after(self.random.choice((0.0, self.random.uniform(0, longest), longest)), lambda: self._died(ranks))

    def _died(self, ranks: Ranks) -> None:
        ranks.dead = True
        self.living.remove(ranks)
        agent = ranks.agent
        if agent.ranks is ranks and agent.alive and agent.joined and not agent.asleep and agent.connection is not None:
            self.send(agent.connection, "up", Ended(attempt=ranks.attempt[1]))

    def _one_attempt_only(self) -> None:
        if len({ranks.attempt for ranks in self.living}) > 1:
            raise TwoAtOnce(f"at {self.now:.2f} s: {[(r.node, r.attempt, r.killed) for r in self.living]}")

    # --- leaders

    def new_leader(self, node: int, *, first: bool = False) -> None:
        skew = self.random.uniform(-300, 300)
        membership = Membership(
            **{
                "run": "r",
                "version": "1",
                "nodes": self.nodes,
                "now": self.now + skew,
                "first": None if self.unsure else first,
            },
            term_s=self.term_s,
            lease_s=self.lease_s,
            longest_s=self.longest_s,
        )
        leader = Leader(serial=len(self.leaders), node=node, skew=skew, membership=membership)
        self.leaders.append((self.now, leader))
        self.after(TICK_S, lambda: self._tick(leader))

    @property
    def leader(self) -> Leader:
        return self.leaders[-1][1]

    def _to_leader(self, connection: Connection, message: Message) -> None:
        leader, node = connection.leader, connection.agent.node
        if not self._is_up(leader, lambda: self._to_leader(connection, message)):
            return
        now, members = self.now + leader.skew, leader.membership
        if isinstance(message, Hello):
            answer = members.hello(node, message, now, connection=connection)
            if isinstance(answer, Welcome):
                leader.connections[node] = connection
            self.send(connection, "down", answer)
            self._end_strays(leader, node, message.attempt, message.state)
        elif isinstance(message, Beat):
            heard = members.beat(node, message, now, connection=connection)
            if heard is not None:
                self.send(connection, "down", heard)
                self._end_strays(leader, node, message.attempt, message.state)
            if members.unasked(node):
                assert leader.attempt is not None, "it was not called off"
                members.asked(node)
                self.again += 1
                self.send(connection, "down", Start(attempt=leader.attempt, layout=Layout()))
        elif isinstance(message, Ended):
            members.ended(node, message.attempt, connection=connection)
        elif isinstance(message, Happened) and message.attempt == leader.attempt:
            self._fail(leader)

    def _lost(self, connection: Connection) -> None:
        if self._is_up(connection.leader, lambda: self._lost(connection)):
            connection.leader.membership.lost(
                connection.agent.node, "closed", self.now + connection.leader.skew, connection=connection
            )

    def _end_strays(self, leader: Leader, node: int, attempt: int, state: State) -> None:
        if state is State.RUNS and attempt != leader.attempt and node in leader.connections:
            self.send(leader.connections[node], "down", End(attempt=attempt, what="x"))

    def _fail(self, leader: Leader) -> None:
        leader.membership.call_off(leader.attempt or 0)
        for node in leader.parts:
            self.send(leader.connections[node], "down", End(attempt=leader.attempt or 0, what="x"))
        leader.attempt, leader.parts = None, []

    def _tick(self, leader: Leader) -> None:
        if not leader.alive:
            return
        self.after(TICK_S, lambda: self._tick(leader))
        if leader.asleep:
            return
        now, members = self.now + leader.skew, leader.membership
        if leader is self.leader:
            members.confirmed(now)
            if not members.leads(now):  # it slept for longer than its term: it begins again, as a new leader
                self.new_leader(leader.node)
        for news in members.tick(now):
            if isinstance(news, SilentNode):
                self.named.append((self.now, news.node))
            elif isinstance(news, Vacant) and news.attempt == leader.attempt:
                self._fail(leader)
        present = members.present(now)
        if leader.attempt is None and len(present) > self.nodes // 2 and members.leads(now):
            if members.blocking(now):
                return
            leader.attempt, leader.parts = members.newest_attempt + 1, present
            members.started(leader.attempt, present, now)
            self.starts.append(self.now)
            for node in present:
                start = Start(attempt=leader.attempt, layout=Layout())
                self.send(leader.connections[node], "down", start)

    # --- faults

    def cut(self, node: int, way: str, length: float) -> None:
        self.cuts.append(Cut(node, way, self.now, self.now + length))

    def sleep(self, process: Agent | Leader, length: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        process.asleep = True
        self.after(length, lambda: self._wake(process))

    def _wake(self, process: Agent | Leader) -> None:
        process.asleep = False
        missed, process.inbox = process.inbox, []
        for what in missed:
            what()

    def crash(self, node: int, down_s: float) -> None:
        """The agent is killed; its reaper kills its ranks; another agent starts later, perhaps before they are dead."""
        agent = self.agents[node]
        if not agent.alive:
            return
        agent.alive = False
        if agent.ranks is not None:
            self._kill(agent.ranks, "its agent was killed", KILLS_S)
        self._close(agent)
        self.after(down_s, lambda: self.agents.__setitem__(node, self._agent(node)))

    def twin(self, node: int) -> None:
        """A second agent is started for a node; the first one, alive or stopped, goes on."""
        if self.agents[node].alive:
            self.agents[node] = self._agent(node)

    def break_connection(self, node: int) -> None:
        self._close(self.agents[node])

    def fail_rank(self, node: int) -> None:
        agent = self.agents[node]
        if agent.connection is not None and agent.lease.attempt != NEVER:
            self.send(agent.connection, "up", Happened(attempt=agent.lease.attempt, what="exited"))

    def crash_leader(self, down_s: float, node: int) -> None:
        leader = self.leader
        if not leader.alive:
            return  # its successor is not there yet
        leader.alive = False
        for agent in self.agents:
            if agent.connection is not None and agent.connection.leader is leader:
                connection = agent.connection
                self._carry(connection, "down", lambda connection=connection: self._hung_up(connection))
        self.after(down_s, lambda: self.new_leader(node))

    def _hung_up(self, connection: Connection) -> None:
        if connection.agent.connection is connection:
            self._close(connection.agent)

    def is_whole(self) -> bool:
        """Whether an attempt runs on every node that takes part in it."""
        leader = self.leader
        if leader.attempt is None:
            return False
        there = {ranks.node for ranks in self.living if ranks.attempt == (leader.serial, leader.attempt)}
        return there == set(leader.parts)


assert BEAT_S > 2 * LOOK_S, "agents here look at their leases often enough"
