# SPDX-License-Identifier: Apache-2.0
"""Whether what ranks send waits for the network, by what the kernel counts of their connections to other hosts.

A connection is slow if something was on its way for much of the time, the other side had room for it, and yet less was
carried than any network fit for training carries. A rank that computes for long has nothing on its way; a rank that
does not read has no room. Where small messages wait for late confirmations only, little stays unsent and answers are
quick: that is no sign.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from keepstep.base.proc_stat import family, with_descendants
from keepstep.base.wording import size
from keepstep.cluster.address import is_loopback
from keepstep.sources.host.tcp_counts import TcpCounts, sockets_of, tcp_counts

EVERY_S = 2.0
WINDOW_S = 20.0
BUSY = 0.4
"""Of the time: something was on its way. Two ranks that exchange gradients send in turns, half of the time each."""
FULL = 0.3
"""Of that: the other side had no room."""
SLOW_BYTES_S = 6.25e6
"""50 Mbit/s: no network fit for training is slower."""
LEAST_BYTES = 16 << 10
"""In a window: heartbeats of coordination services are far less."""
UNSENT_BYTES = 4 << 10
SLOW_ANSWER_S = 0.1
"""More than any wait for a late confirmation (40 ms)."""
OFTEN = 0.5
"""Of the looks: much was unsent, or answers were slow."""

Look = tuple[float, Mapping[int, TcpCounts]]


@dataclass(frozen=True, slots=True)
class Waits:
    """What a rank sends to another host waits for the network."""

    rank: int
    peer: str
    bytes_s: float
    busy: float
    """For which part of the time something was on its way."""
    seconds: float

    @property
    def words(self) -> str:
        return (
            f"the network is slow: in {self.busy:.0%} of the last {self.seconds:.0f} s, data of rank {self.rank} was "
            f"on its way to {self.peer}, which took {size(round(self.bytes_s))}/s"
        )


@dataclass
class SlowNetwork:
    """``see`` about once per second. A rank is named once."""

    counts: Callable[[], Mapping[int, TcpCounts]] = tcp_counts
    _looks: deque[Look] = field(default_factory=deque)
    _due: float = 0.0
    _told: set[int] = field(default_factory=set)

    def see(self, ranks: Mapping[int, int], now: float) -> list[Waits]:
        """What is new. ``ranks``: the process of each rank."""
        if now < self._due or not ranks or self._told >= ranks.keys():
            return []
        self._due = now + EVERY_S
        self._looks.append((now, {n: each for n, each in self.counts().items() if _leaves_the_host(each)}))
        while len(self._looks) > 2 and now - self._looks[1][0] >= WINDOW_S:
            self._looks.popleft()
        if now - self._looks[0][0] < WINDOW_S:
            return []
        found = [each for n in self._looks[-1][1] if (each := self._judged(n)) is not None]
        if not found:
            return []
        listed = with_descendants(ranks.values())
        held = {rank: sockets_of(family(listed, [pid]) or {pid}) for rank, pid in ranks.items()}
        return list(self._news(found, held))

    def _judged(self, number: int) -> tuple[int, str, float, float, float] | None:
        """Of one connection over the window, if it is slow."""
        looks = [(at, seen[number]) for at, seen in self._looks if number in seen]
        (began, first), (at, last) = looks[0], looks[-1]
        seconds = at - began
        if seconds < WINDOW_S:
            return None
        busy, full, sent = last.busy_s - first.busy_s, last.full_s - first.full_s, last.acked - first.acked
        late = sum(each.not_sent >= UNSENT_BYTES or each.rtt_s >= SLOW_ANSWER_S for _, each in looks)
        if busy < BUSY * seconds or full > FULL * busy or late < OFTEN * len(looks):
            return None
        if not LEAST_BYTES <= sent < SLOW_BYTES_S * busy:
            return None
        return number, last.peer, sent / busy, min(busy / seconds, 1.0), seconds

    def _news(
        self, found: Collection[tuple[int, str, float, float, float]], held: Mapping[int, set[int]]
    ) -> Collection[Waits]:
        """The slowest of each rank that was not told of yet."""
        news: dict[int, Waits] = {}
        for number, peer, bytes_s, busy, seconds in sorted(found, key=lambda each: each[2]):
            for rank, sockets in held.items():
                if number in sockets and rank not in self._told and rank not in news:
                    news[rank] = Waits(rank, peer, bytes_s, busy, seconds)
        self._told |= news.keys()
        return news.values()


def _leaves_the_host(each: TcpCounts) -> bool:
    return each.here != each.peer and not is_loopback(each.peer)
