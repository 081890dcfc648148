# SPDX-License-Identifier: Apache-2.0
"""Connections between machines whose network breaks: real TCP between network namespaces, cut by iptables.

All cuts happen at once, one per machine, because each takes its seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from keepstep.supervise.nodes import messages
from keepstep.supervise.nodes.connection import secret
from keepstep.supervise.nodes.connection.dial import connect
from keepstep.supervise.nodes.connection.hub import Hub
from keepstep.supervise.nodes.connection.interface import CannotConnect, Connection, ConnectionLost, Got, Lost
from keepstep.supervise.nodes.connection.transport import SILENT_S
from keepstep_lab import hosts
from tests.supervise.nodes.connecting import SOON_S, beat, opened

pytestmark = pytest.mark.skipif(hosts.missing() is not None, reason=str(hosts.missing()))

EVERY_S = 0.1
CUT_S = 5.0
LATEST_S = SILENT_S + 4.0
CLONE_NEWNET = 0x40000000
DROP, RESET, ICMP = "DROP", "REJECT --reject-with tcp-reset", "REJECT"
HOSTS = {
    "dropped": (("INPUT", "OUTPUT"), DROP),
    "agent deaf": (("INPUT",), DROP),
    "agent mute": (("INPUT",), DROP),
    "reset": (("INPUT",), RESET),
    "cut for 5 s": (("INPUT", "OUTPUT"), DROP),
    "rejected for 5 s": (("INPUT", "OUTPUT"), ICMP),
    "idle and dropped": (("INPUT", "OUTPUT"), DROP),
    "untouched": ((), DROP),
}
NAMES = list(HOSTS)


def on(machines: hosts.Hosts, host: int, action: Callable[[], Any]) -> Any:
    """Run this in a thread that is on that host: the sockets that it makes belong there."""
    holder = int(machines.inside(host)[1].partition("=")[2])
    result: Future[Any] = Future()

    def go() -> None:
        try:
            with open(f"/proc/{holder}/ns/net") as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            result.set_result(action())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=go, daemon=True).start()
    return result.result(SOON_S)


class Conversation:
    """An agent that beats, and what both sides saw of it."""

    def __init__(self, name: str, connection: Connection, number: int) -> None:
        self.name, self.connection, self.number = name, connection, number
        self.sent = 0
        self.heard: list[int] = []
        self.arrived: list[tuple[float, int]] = []
        self.lost_there: tuple[float, str] | None = None
        self.lost_here: tuple[float, str] | None = None
        self.quits = threading.Event()
        self.beats = name != "idle and dropped"
        self.thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        try:
            while not self.quits.is_set():
                if self.beats:
                    self.connection.send(beat(self.sent))
                    self.sent += 1
                answer = self.connection.receive(EVERY_S)
                while isinstance(answer, messages.Heard):
                    self.heard.append(answer.number)
                    answer = self.connection.receive(0)
        except ConnectionLost as error:
            self.lost_here = time.monotonic(), str(error)


class Leader:
    """Answers every beat, and notes when it came."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.talks: dict[int, Conversation] = {}
        self.thread = threading.Thread(target=self._answer, daemon=True)
        self.quits = threading.Event()
        self.broken: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

    def _answer(self) -> None:
        try:
            while not self.quits.is_set():
                event = self.hub.receive(0.05)
                if isinstance(event, Lost):
                    self.talks[event.connection].lost_there = time.monotonic(), event.why
                elif isinstance(event, Got) and isinstance(event.message, messages.Beat):
                    self.talks[event.connection].arrived.append((time.monotonic(), event.message.number))
                    self.hub.send(event.connection, messages.Heard(number=event.message.number))
        except BaseException as error:
            self.broken.put(error)


class World:
    """All conversations, and the moments of the cuts."""

    def __init__(self, machines: hosts.Hosts, talks: dict[str, Conversation]) -> None:
        self.machines, self.talks = machines, talks
        self.cut: dict[str, float] = {}
        self.healed: dict[str, float] = {}

    def rule(self, name: str, action: str) -> float:
        """Add or delete what cuts this agent off. An agent is mute when the leader's machine drops what it sends."""
        chains, how = HOSTS[name]
        host = NAMES.index(name) + 1
        at, match = (host, "") if name != "agent mute" else (0, f"-s {hosts.address(host)}")
        rules = [f"iptables {action} {chain} {match} -p tcp -j {how}" for chain in chains]
        self.machines.do(at, "sh", "-ec", " && ".join(rules) or "true")
        return time.monotonic()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("hosts")
    known = secret.make()
    with contextlib.ExitStack() as stack:
        machines = hosts.Hosts(len(HOSTS) + 1, folder, dict(os.environ))
        stack.callback(machines.close)
        hub = on(machines, 0, lambda: Hub(known, None, None))
        stack.callback(hub.close, 0)
        leader, talks = Leader(hub), {}
        for host, name in enumerate(HOSTS, 1):
            connection = on(machines, host, lambda: connect(known, hosts.address(0), hub.address[1], SOON_S))
            stack.callback(connection.close, 0)
            news = opened(hub)
            assert news.peer == hosts.address(host)
            talks[name] = leader.talks[news.connection] = Conversation(name, connection, news.connection)
        leader.thread.start()
        stack.callback(leader.thread.join, SOON_S)
        stack.callback(leader.quits.set)
        for talk in talks.values():
            talk.thread.start()
            stack.callback(talk.quits.set)
        wait(lambda: all(talk.heard for talk in talks.values() if talk.beats))
        found = World(machines, talks)
        for name in HOSTS:
            found.cut[name] = found.rule(name, "-A")
        for name in ("cut for 5 s", "rejected for 5 s"):
            time.sleep(max(0.0, found.cut[name] + CUT_S - time.monotonic()))
            found.healed[name] = found.rule(name, "-D")
        yield found
        assert leader.broken.empty()


def wait(true: Callable[[], Any], seconds: float = SOON_S) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not become true"
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["dropped", "agent deaf", "agent mute", "idle and dropped"])
def test_a_cut_is_noticed_on_both_sides_about_when_the_lease_ends(world: World, name: str) -> None:
    talk = world.talks[name]
    wait(lambda: talk.lost_here and talk.lost_there)
    for side, lost in (("agent", talk.lost_here), ("leader", talk.lost_there)):
        assert lost is not None
        print(f"{name}: the {side} noticed after {lost[0] - world.cut[name]:.2f} s: {lost[1]}")
    for lost in (talk.lost_here, talk.lost_there):
        assert lost is not None
        after = lost[0] - world.cut[name]
        assert CUT_S < after < LATEST_S, f"after {after:.1f} s"
        assert "nothing reached the other side" in lost[1] or "no way to the other side" in lost[1], lost[1]
    assert [number for _, number in talk.arrived] == list(range(len(talk.arrived)))


def test_a_reset_is_noticed_at_once(world: World) -> None:
    talk = world.talks["reset"]
    wait(lambda: talk.lost_there)
    assert talk.lost_there is not None
    assert talk.lost_there[0] - world.cut["reset"] < 2.0
    assert "reset" in talk.lost_there[1]


@pytest.mark.parametrize("name", ["cut for 5 s", "rejected for 5 s"])
def test_after_five_seconds_everything_arrives_in_order(world: World, name: str) -> None:
    talk = world.talks[name]
    wait(lambda: talk.arrived[-1][0] > world.healed[name])
    first = next(at for at, _ in talk.arrived if at > world.healed[name])
    print(f"{name}: cut for {world.healed[name] - world.cut[name]:.2f} s")
    print(f"{name}: the first message came {first - world.healed[name]:.2f} s after the cut ended")
    assert first - world.healed[name] < 3.5
    enough = talk.sent
    wait(lambda: talk.heard[-1] >= enough or talk.lost_here or talk.lost_there)
    assert talk.lost_here is None and talk.lost_there is None
    numbers = [number for _, number in talk.arrived]
    assert numbers == list(range(len(numbers))), "some were lost, or came twice"
    assert talk.heard[:enough] == list(range(enough))
    quiet = max(later - earlier for (earlier, _), (later, _) in zip(talk.arrived, talk.arrived[1:], strict=False))
    assert quiet >= CUT_S - 0.5, "the cut did not cut"


def test_others_noticed_nothing(world: World) -> None:
    talk = world.talks["untouched"]
    enough = talk.sent
    wait(lambda: talk.heard[-1] >= enough)
    assert talk.lost_here is None and talk.lost_there is None
    assert [number for _, number in talk.arrived][:enough] == list(range(enough))


def test_a_host_that_does_not_answer_and_one_without_a_way_are_told_apart(world: World) -> None:
    unused = f"{hosts.NETWORK}.200"
    elsewhere = "203.0.113.1"
    with pytest.raises(CannotConnect, match="did not answer within 0"):
        on(world.machines, 1, lambda: connect(secret.make(), hosts.address(0), 9, 0.4))
    with pytest.raises(CannotConnect, match="cannot be reached"):
        on(world.machines, 8, lambda: connect(secret.make(), elsewhere, 9, 0.4))
    with pytest.raises(CannotConnect, match=r"did not answer|cannot be reached"):
        on(world.machines, 8, lambda: connect(secret.make(), unused, 9, 0.4))
