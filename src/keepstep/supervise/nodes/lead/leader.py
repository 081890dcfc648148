# SPDX-License-Identifier: Apache-2.0
"""The leader's desk: a thread that answers agents at once, whatever the supervisor is busy with.

It answers hellos and beats, puts evidence where it belongs and passes on what guards tell each other. The rest waits
here until the supervisor asks for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.executor import Superseded
from keepstep.supervise.nodes import messages as said
from keepstep.supervise.nodes.agent.heartbeat import Crowd, now
from keepstep.supervise.nodes.connection.hub import LOCAL, Hub
from keepstep.supervise.nodes.connection.interface import Event, Got, Lost, Opened, TurnedAway
from keepstep.supervise.nodes.evidence.measuring import KINDS, measurements
from keepstep.supervise.nodes.evidence.parcels import Receiver, describe
from keepstep.supervise.nodes.evidence.relay import audience
from keepstep.supervise.nodes.evidence.requests import Requests
from keepstep.supervise.nodes.lead.membership import Membership, News, NodeMember
from keepstep.supervise.start.layout import Layout
from keepstep.supervise.watch.history_recorder import Measurements

ROUND_S = 0.25
MOST_AT_ONCE = 256
"""Events between two looks at who is silent."""
LONGEST_WORDS = 2000
FRESH_S = 6.0
"""What a node measured longer ago is not judged."""
LAST_S, CROWDED_LAST_S = 10.0, 30.0
"""For agents to take our goodbye."""
HAPPENINGS = frozenset(each.value for each in Happened)
Answer = TypeVar("Answer", bound=said.Message)


@dataclass(frozen=True, slots=True)
class NodeTold:
    """What a node reports that must be decided upon."""

    node: int
    happened: said.Happened


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that the engine takes away soon: its ranks live, and can still save their work."""

    node: int
    by: str
    """The engine."""
    why: str
    """What it does, in words."""


class Leader:
    """Opened once per run; :meth:`open` begins each attempt."""

    def __init__(self, hub: Hub, membership: Membership, say: Callable[[str], None]) -> None:
        self._hub = hub
        self._membership = membership
        self._say = say
        self._changed = threading.Condition()
        """Holds while anything below is read or changed."""
        self._nodes: dict[int, int] = {}
        """The node of each connection."""
        self._peers: dict[int, str] = {}
        self._ahead: dict[int, float] = {}
        """How far the clock of each connection's machine is ahead of ours."""
        self._attempt = said.NEVER
        self._layout = Layout()
        self._receivers: dict[int, Receiver] = {}
        self._folder: Path | None = None
        self._answers: dict[tuple[type, int], said.Message] = {}
        self._news: list[News | NodeTold | Leaving] = []
        self._refused: list[str] = []
        self._keys: list[tuple[int, tuple[str, str]]] = []
        """What guards have told each other in this attempt, for nodes that come back."""
        self._requests: Requests | None = None
        """To the ranks of this attempt."""
        self._measured: dict[int, tuple[float, Measurements]] = {}
        """By node: when that came, and what it showed."""
        self._starts: dict[int, said.Start] = {}
        """What each node was told to start."""
        self._status: int | None = None
        """Of the run, once it is over."""
        self._took: set[int] = set()
        """The connections whose agent has answered our goodbye. One that ends without may have lost it."""
        self._parted: set[int] = set()
        """The nodes whose agent has taken our goodbye and ended."""
        self._superseded: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keepstep-leader", daemon=True)
        self._thread.start()

    # --- for the supervisor

    def open(self, attempt: int, folder: Path, layout: Layout, nodes: Collection[int]) -> None:
        """A new attempt begins: its evidence goes to this folder. Raises ``ValueError`` if an old one may still run."""
        with self._changed:
            self._membership.started(attempt, nodes, now())
            # All of them were heard a moment ago: who was silent while nodes were awaited no longer matters.
            self._news = [each for each in self._news if not isinstance(each, News)]
            self._attempt, self._folder, self._layout = attempt, folder, layout
            self._answers = {k: each for k, each in self._answers.items() if getattr(each, "attempt", None) == attempt}
            self._keys.clear()
            self._starts.clear()
            self._measured.clear()
            self._requests = Requests(folder, attempt)
            self._receivers = {node: Receiver(folder / f"node{node}") for node in nodes}
        self._describe(nodes)

    def move(self, folder: Path) -> None:
        """The evidence of this attempt goes to another folder from now on."""
        with self._changed:
            self._folder, self._requests = folder, Requests(folder, self._attempt)
            self._receivers = {node: Receiver(folder / f"node{node}") for node in self._receivers}
            nodes = list(self._receivers)
        self._describe(nodes)

    def _describe(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            with self._changed:
                write = self._described(node)
            write()

    def tell(self, nodes: Iterable[int], message: said.Message) -> None:
        """To each of these nodes that is connected. Beats are answered in between: there may be thousands of nodes."""
        for node in nodes:
            with self._changed:
                if isinstance(message, said.Start):
                    self._starts[node] = message
                    self._membership.asked(node)
                elif isinstance(message, said.End):
                    self._membership.call_off(message.attempt)
                self._send(node, message)

    def answers(self, kind: type[Answer], attempt: int) -> dict[int, Answer]:
        """What the nodes have answered so far, by node."""
        with self._changed:
            return {
                node: message
                for (which, node), message in self._answers.items()
                if which is kind and isinstance(message, kind) and getattr(message, "attempt", None) == attempt
            }

    def pass_requests_on(self) -> None:
        """What was asked of all ranks in the attempt's folder, or withdrawn there."""
        with self._changed:
            for asked in self._requests.new() if self._requests is not None else ():
                self._tell_all(asked)

    def measured(self) -> Measurements:
        """What all nodes showed last."""
        found: Measurements = {kind: {} for kind in KINDS}
        with self._changed:
            for at, each in self._measured.values():
                for kind, subjects in each.items() if now() - at < FRESH_S else ():
                    found[kind] |= subjects
        return found

    def forget(self, kind: type[said.Message]) -> None:
        """Ask anew."""
        with self._changed:
            self._answers = {key: value for key, value in self._answers.items() if key[0] is not kind}

    def report(self, news: Leaving) -> None:
        """What the engine says, for whoever asks for news."""
        with self._changed:
            self._news.append(news)
            self._changed.notify_all()

    def news(self) -> list[News | NodeTold | Leaving]:
        """What has happened since the last call."""
        with self._changed:
            news, self._news = self._news, []
            return news

    def wait(self, seconds: float) -> None:
        """Wait for news, or for ``seconds``. Raises :class:`Superseded` once this process no longer leads."""
        with self._changed:
            if not self._news:
                self._changed.wait(seconds)
            if not self._membership.leads(now()):
                why = self._superseded or "the engine has not confirmed for too long that this node leads"
                raise Superseded(why, self._membership.newest_attempt)

    def confirmed(self, asked: float) -> None:
        """The engine said so, when it was asked at this time."""
        with self._changed:
            self._membership.confirmed(asked)

    def supersede(self, why: str) -> None:
        """The engine says that another one leads."""
        with self._changed:
            self._superseded = why
            self._membership.supersede()
            self._changed.notify_all()

    def hears(self, hosts: Collection[str]) -> bool:
        """Whether all nodes on these hosts are connected here, and were heard a moment ago."""
        with self._changed:
            return self._membership.hears(hosts, now())

    def end_others(self) -> None:
        """End what an earlier leader has started."""
        with self._changed:
            for node in self._membership.blocking(now()):
                member = self._membership.member(node)
                if member is not None and member.open not in (None, self._attempt):
                    self._send(node, said.End(attempt=member.open, what="node lost", hurry=True))

    def member(self, node: int) -> NodeMember | None:
        with self._changed:
            return self._membership.member(node)

    def is_heard(self, node: int) -> bool:
        """Whether its agent is connected, and was heard a moment ago."""
        with self._changed:
            member = self._membership.member(node)
            return member is not None and self._membership.is_heard(member, now())

    def steps(self, node: int) -> int:
        """As many as the furthest of its ranks has made, by its last beat."""
        member = self.member(node)
        return member.steps if member is not None else 0

    def quiet_s(self, node: int) -> float | None:
        """For how long none of its ranks has moved, by its last beat."""
        member = self.member(node)
        return member.quiet_s if member is not None else None

    def moved_since(self, node: int, at: float) -> bool:
        """Whether one of its ranks has moved since then, by its last beat."""
        member = self.member(node)
        return member is not None and member.quiet_s is not None and member.heard - member.quiet_s > at

    def slept_s(self) -> float:
        """For how long this process itself was not run of late, if that was for longer than a lease; else 0."""
        with self._changed:
            return self._membership.slept_s(now())

    def present(self) -> list[int]:
        with self._changed:
            return self._membership.present(now())

    def missing(self) -> list[int]:
        with self._changed:
            return self._membership.missing()

    def blocking(self) -> dict[int, float]:
        with self._changed:
            return self._membership.blocking(now())

    @property
    def safe_s(self) -> float:
        """A node that has been silent for this long has no ranks left."""
        return self._membership.safe_s

    @property
    def newest_attempt(self) -> int:
        with self._changed:
            return self._membership.newest_attempt

    @property
    def nodes(self) -> int:
        """How many the engine has."""
        return self._membership.nodes

    def address(self, node: int) -> str:
        """Where the other nodes reach it."""
        with self._changed:
            return self._address(node)

    def host(self, node: int) -> str:
        member = self.member(node)
        return member.hello.host if member is not None else f"node {node}"

    @property
    def refused(self) -> list[str]:
        """Why agents could not take part."""
        with self._changed:
            return list(self._refused)

    def close(self, status: int) -> None:
        """Say goodbye to all, also to those whose connection is just being made anew: else they would wait for us."""
        with self._changed:
            leads = self._membership.leads(now())
            for connection in list(self._nodes):
                if leads or self._peers.get(connection) == LOCAL:  # the other nodes look for the one that leads now
                    self._hub.send(connection, said.Bye(status=status))
            self._status = status if leads else None
            until = now() + (CROWDED_LAST_S if self._membership.crowded else LAST_S)
            while leads and self._awaited() and now() < until:
                self._changed.wait(ROUND_S)
        self._over.set()
        self._thread.join(timeout=2.0)
        self._hub.close(flush_s=3.0)

    @property
    def parted(self) -> int:
        """How many agents have taken our goodbye and ended. The others were lost on the way."""
        with self._changed:
            return len(self._parted)

    def _awaited(self) -> bool:
        """Whether an agent has yet to take our goodbye. One that does says so and ends, and its connection with it."""
        members = [self._membership.member(node) for node in range(self.nodes) if node not in self._parted]
        return any(each is not None and not each.silent for each in members)

    # --- the thread

    def _run(self) -> None:
        ticked, crowd = now(), Crowd()
        while not self._over.is_set():
            event = self._hub.receive(ROUND_S)
            with self._changed:
                stirred = self._take_all(event)
                if now() - ticked >= ROUND_S:  # it looks at every node: not for each beat
                    ticked = now()
                    self._membership.crowded = crowd.is_here()
                    self._news += self._membership.tick(ticked)
                if stirred or self._news:
                    self._changed.notify_all()

    def _take_all(self, event: Event | None) -> bool:
        """This one and what came since, up to a bound. Whether there was more than beats, so whoever waits looks."""
        stirred, left = False, MOST_AT_ONCE
        while event is not None:
            self._take(event)
            stirred = stirred or not (isinstance(event, Got) and isinstance(event.message, said.Beat))
            left -= 1
            event = self._hub.receive(0.0) if left else None
        return stirred

    def _take(self, event: Event) -> None:
        match event:
            case Opened(connection=connection, peer=peer):
                self._peers[connection] = peer
            case Lost(connection=connection, why=why):
                node = self._nodes.pop(connection, None)
                if node is not None:
                    self._membership.lost(node, why, now(), connection=connection)
                    if connection in self._took:
                        self._parted.add(node)
            case TurnedAway(peer=peer, why=why):
                self._say(f"a connection from {peer} was turned away: {why}")
            case Got(connection=connection, message=said.Hello() as hello):
                self._hello(connection, hello)
            case Got(connection=connection, message=message) if connection in self._nodes:
                try:
                    self._heard(connection, self._nodes[connection], message)
                except said.BadMessage as error:
                    self._say(f"{self._host(self._nodes[connection])} sent what cannot be used: {error}")
            case _:
                pass

    def _hello(self, connection: int, hello: said.Hello) -> None:
        answer = self._membership.hello(hello.node, hello, now(), connection=connection)
        if isinstance(answer, said.Refused):
            if answer.why not in self._refused and not answer.again:
                self._refused.append(answer.why)
                self._say(answer.why)
        else:
            self._nodes[connection] = hello.node
            self._ahead[connection] = hello.wall - time.time() if hello.wall is not None else 0.0
            self._described(hello.node)()
        self._hub.send(connection, answer)
        if self._status is not None:
            self._parted.discard(hello.node)
            self._hub.send(connection, said.Bye(status=self._status))
        elif isinstance(answer, said.Welcome) and self._keys and hello.attempt == self._attempt:
            keys = tuple(key for node, key in self._keys if node != hello.node)
            self._hub.send(connection, said.Put(attempt=self._attempt, keys=keys))
        if isinstance(answer, said.Welcome) and self._requests is not None and hello.attempt == self._attempt:
            for asked in self._requests.standing():
                self._hub.send(connection, asked)

    def _heard(self, connection: int, node: int, message: said.Message) -> None:
        match message:
            case said.Beat():
                if (heard := self._membership.beat(node, message, now(), connection=connection)) is not None:
                    self._hub.send(connection, heard)
                if self._membership.unasked(node) and node in self._starts:
                    self._membership.asked(node)
                    self._hub.send(connection, self._starts[node])
            case said.Parcel() if message.attempt == self._attempt and node in self._receivers:
                with contextlib.suppress(OSError):
                    self._receivers[node].take(message)
            case said.Put() if message.attempt == self._attempt:
                self._pass_on(node, message.keys)
            case said.Asked() if message.attempt == self._attempt and self._requests is not None:
                self._requests.take(message)
                self._tell_all(message, but=node)
            case said.Measured(told=told) if message.attempt == self._attempt:
                self._measured[node] = now(), measurements(told)
            case said.Said(text=text):
                self._say(f"{self._host(node)}: {text[:LONGEST_WORDS]}")
            case said.Happened():
                if message.what not in HAPPENINGS:
                    raise said.BadMessage(f"{message.what[:40]!r} is nothing that can happen to an attempt")
                self._news.append(NodeTold(node, message))
            case said.Ended():
                self._membership.ended(node, message.attempt, connection=connection)
                self._answers[said.Ended, node] = message
            case said.Bye():
                self._took.add(connection)
            case said.Ready() | said.Collected() | said.Looked() | said.Probed():
                self._answers[type(message), node] = message
            case _:
                pass

    def _pass_on(self, node: int, keys: tuple[tuple[str, str], ...]) -> None:
        self._keys += [(node, key) for key in keys]
        first = self._layout.first.node if self._layout.seats else 0
        for other in self._receivers:
            wanted = tuple(key for key in keys if other == first or audience(key[0]) == "all")
            if other != node and wanted:
                self._send(other, said.Put(attempt=self._attempt, keys=wanted))

    def _tell_all(self, message: said.Message, but: int | None = None) -> None:
        """All nodes of this attempt."""
        for node in self._receivers:
            if node != but:
                self._send(node, message)

    def _send(self, node: int, message: said.Message) -> None:
        member = self._membership.member(node)
        if member is not None and isinstance(member.connection, int):
            self._hub.send(member.connection, message)

    def _address(self, node: int) -> str:
        member = self._membership.member(node)
        if member is None:
            return ""
        if member.hello.address is not None:
            return member.hello.address
        return self._peers.get(member.connection, "") if isinstance(member.connection, int) else ""

    def _host(self, node: int) -> str:
        member = self._membership.member(node)
        return member.hello.host if member is not None else f"node {node}"

    def _described(self, node: int) -> Callable[[], None]:
        """Writes which machine a node of this attempt is, for whoever reads the folder."""
        if self._folder is None or node not in self._receivers:
            return lambda: None
        member = self._membership.member(node)
        connection = member.connection if member is not None else None
        ahead = self._ahead.get(connection, 0.0) if isinstance(connection, int) else 0.0
        return partial(
            describe,
            self._folder,
            node,
            self._layout,
            host=self._host(node),
            address=self._address(node),
            ahead_s=ahead,
        )
