# SPDX-License-Identifier: Apache-2.0
"""What thousands of agents cost their leader: the real leases and messages; time and the network are simulated.

``python -m benchmarks.nodes [AGENTS ...]``. Every message is encoded and decoded as between machines; what sockets and
encryption cost comes on top. Processor time is the leader's alone. The slope is the cost of one more node.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from keepstep.supervise.nodes.agent.lease import BEAT_S, Lease
from keepstep.supervise.nodes.lead.hosts_left_out import next_world
from keepstep.supervise.nodes.lead.membership import Membership, News, SilentNode, Vacant
from keepstep.supervise.nodes.messages import (
    Beat,
    End,
    Ended,
    Hello,
    Message,
    Prepare,
    Ready,
    Start,
    State,
    decode,
    encode,
)
from keepstep.supervise.start.layout import Layout, Seat

PER_NODE = 8
TICK_S = 0.25
STEADY_S = 8.0


@dataclass(slots=True)
class Cost:
    """Processor time of the leader, and what it read and wrote."""

    seconds: float = 0.0
    messages: int = 0
    read: int = 0
    written: int = 0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds - other.seconds,
            self.messages - other.messages,
            self.read - other.read,
            self.written - other.written,
        )

    def copy(self) -> Cost:
        return self - Cost()


class Leader:
    """What a leader does with what arrives, without sockets."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.members = Membership(run="r", version="1", nodes=nodes, now=0.0, first=True)
        self.cost = Cost()

    def measured(self, call: Callable[[], list[bytes]]) -> list[bytes]:
        began = time.thread_time()
        found = call()
        self.cost.seconds += time.thread_time() - began
        self.cost.written += sum(map(len, found))
        return found

    def receives(self, arrived: list[tuple[int, bytes]], now: float) -> list[bytes]:
        self.cost.messages += len(arrived)
        self.cost.read += sum(len(line) for _, line in arrived)
        return self.measured(lambda: [self._answer(node, line, now) for node, line in arrived])

    def _answer(self, node: int, line: bytes, now: float) -> bytes:
        message = decode(line)
        answer: Message | None = None
        if isinstance(message, Beat):
            answer = self.members.beat(node, message, now, connection=node)
        elif isinstance(message, Hello):
            answer = self.members.hello(node, message, now, connection=node)
        elif isinstance(message, Ended):
            self.members.ended(node, message.attempt, connection=node)
        return b"" if answer is None else encode(answer)

    def says(self, message: Message, times: int) -> list[bytes]:
        """The same message to many nodes is made once."""
        return self.measured(lambda: [encode(message)] * times)

    def ticks(self, now: float) -> list[News]:
        began = time.thread_time()
        news = self.members.tick(now)
        self.cost.seconds += time.thread_time() - began
        return news


class Crowd:
    """The agents, and a clock that jumps from tick to tick."""

    def __init__(self, nodes: int) -> None:
        self.now = 0.0
        self.leader = Leader(nodes)
        self.leases = {node: Lease(random.uniform(0, BEAT_S)) for node in range(nodes)}
        self.state = State.IDLE
        self.leader.receives([(node, encode(hello(node))) for node in range(nodes)], self.now)

    def passes(self, seconds: float) -> list[tuple[float, News]]:
        """Beats and their answers for so long; what the leader noticed, and when."""
        told = []
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now += TICK_S
            beats = [(node, lease.beat(self.now, state=self.state)) for node, lease in self.leases.items()]
            sent = [(node, encode(beat)) for node, beat in beats if beat is not None]
            for (node, _), line in zip(sent, self.leader.receives(sent, self.now), strict=True):
                self.leases[node].heard(decode(line), self.now)  # type: ignore[arg-type]
            told += [(self.now, news) for news in self.leader.ticks(self.now)]
        return told

    def restarts(self, attempt: int, nodes: tuple[int, ...]) -> Cost:
        """All parts of an attempt are ended and started again; what that costs the leader."""
        leader, before = self.leader, self.leader.cost.copy()
        leader.says(End(attempt=attempt - 1, what="exited"), len(nodes))
        leader.receives([(node, encode(Ended(attempt=attempt - 1))) for node in nodes], self.now)
        leader.says(Prepare(attempt=attempt, ranks=PER_NODE), len(nodes))
        ready = Ready(attempt=attempt, ports=tuple(range(40000, 40002 + PER_NODE)))
        leader.receives([(node, encode(ready)) for node in nodes], self.now)
        self.starts(attempt, nodes)
        return leader.cost - before

    def starts(self, attempt: int, nodes: tuple[int, ...]) -> None:
        leader = self.leader

        def start() -> list[bytes]:
            leader.members.started(attempt, nodes, self.now)
            seats = tuple(
                Seat(rank=place * PER_NODE + local, node=node, host=address(node), port=40000 + local)
                for place, node in enumerate(nodes)
                for local in range(PER_NODE)
            )
            line = encode(Start(attempt=attempt, layout=Layout(seats=seats, store_port=40008, coordinator_port=40009)))
            return [line] * len(nodes)

        line = leader.measured(start)[0]
        for node in nodes:
            assert self.leases[node].may_start(START_OF[attempt], self.now)
        self.state = State.RUNS
        self.start_size = len(line)


START_OF = [Start(attempt=attempt, layout=Layout()) for attempt in range(4)]


def address(node: int) -> str:
    return f"10.{node >> 16}.{(node >> 8) & 255}.{node & 255}"


def hello(node: int) -> Hello:
    return Hello(
        run="r",
        node=node,
        host=f"node{node:05d}",
        address=address(node),
        version="1",
        python="3.11.7",
        program="0123456789abcdef" * 4,
        per_node=PER_NODE,
    )


def memory_of(nodes: int) -> float:
    """Bytes that the leader keeps per node."""
    lines = [(node, encode(hello(node))) for node in range(nodes)]
    tracemalloc.start()
    leader = Leader(nodes)
    before = tracemalloc.get_traced_memory()[0]
    for line in lines:
        leader._answer(*line, 0.0)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return kept / nodes


def row(agents: int) -> str:
    random.seed(5)
    crowd = Crowd(agents)
    crowd.passes(1.0)
    everyone = tuple(range(agents))
    crowd.starts(0, everyone)
    before = crowd.leader.cost.copy()
    crowd.passes(STEADY_S)
    steady = crowd.leader.cost - before
    restart = crowd.restarts(1, everyone)
    crowd.passes(1.0)
    died = crowd.now
    del crowd.leases[agents // 2]
    told = crowd.passes(14.0)
    assert {news.node for _, news in told} == {agents // 2}, "another node was reported too"
    noticed = next(at for at, news in told if isinstance(news, SilentNode)) - died
    over = next(at for at, news in told if isinstance(news, Vacant)) - died
    decisions = []
    for _ in range(5):
        began = time.thread_time()
        present = {node: f"node{node:05d}" for node in crowd.leader.members.present(crowd.now)}
        world = next_world(everyone, present, least=1, most=agents)
        crowd.leader.members.blocking(crowd.now)
        decisions.append(time.thread_time() - began)
    assert len(world.nodes) == agents - 1
    core = steady.seconds / STEADY_S
    return (
        f"| {agents:,} | {steady.messages / STEADY_S:,.0f} | {core:.2%} | {core / agents * 1e6:.1f} us "
        f"| {noticed:.2f} s | {over:.2f} s | {statistics.median(decisions) * 1e3:.1f} ms "
        f"| {restart.seconds * 1e3:.0f} ms | {crowd.start_size / 1e6:.2f} MB | {restart.written / 1e6:,.0f} MB "
        f"| {memory_of(agents) / 1e3:.1f} kB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", type=int, nargs="*", default=[256, 1024, 4096])
    print(
        "| agents | beats per second | leader, of a core | per agent and second | lost one named | known to be dead "
        "| decision | one restart of all | a start | starts, all nodes | memory per agent |\n" + "|---" * 11 + "|"
    )
    for agents in parser.parse_args().agents:
        print(row(agents), flush=True)


if __name__ == "__main__":
    main()
