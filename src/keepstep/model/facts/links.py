# SPDX-License-Identifier: Apache-2.0
"""What the processes of one check saw of each other and of the links between their hosts."""

from __future__ import annotations

from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact

SMALL = 4
"""A cluster of at most this many hosts is small."""


class Reached(Enum):
    """The result of one attempt to open a connection, as the kernel reported it."""

    CONNECTED = "connected"
    REFUSED = "refused"
    """A reset, or an ICMP message that means the same, came back at once."""
    REJECTED = "rejected"
    """An ICMP message said that the host or network is unreachable or forbidden."""
    NO_ANSWER = "no answer"
    """Nothing came back: something on the way drops the packets, or no host is there."""
    RESET = "reset"
    """The connection was made, and cut before anything could be exchanged."""
    SILENT = "silent"
    """The connection was made, and not even small messages got through."""
    STRANGER = "stranger"
    """Another program or host answered."""
    UNRESOLVED = "unresolved"
    """The name has no address here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbed(Fact):
    """One host opened a connection to another and measured it. What was not measured is None."""

    source: str
    target: str
    source_rank: int | None = None
    target_rank: int | None = None
    name: str = ""
    """The job's name for the target: a host name or an address."""
    address: str = ""
    """What that resolved to on the source."""
    port: int = 0
    of_the_job: bool = False
    """Whether the job will use this port; otherwise it happened to be free."""
    owned: bool = True
    """Whether the target says it has this address."""
    reached: Reached = Reached.CONNECTED
    said: str = ""
    """The kernel's message, or who answered."""
    latency_s: float | None = None
    """The median of several small exchanges; ``quickest_s`` is the quickest."""
    quickest_s: float | None = None
    rate_bytes_s: float | None = None
    again: bool = False
    """Whether it was measured a second time, with few others on the network."""
    full_size: int | None = None
    """Bytes of the largest packet that both ends agreed on."""
    passed_size: int | None = None
    """The largest packet that got through, if the full size did not. 0: none of those tried."""
    resent: int | None = None
    """Segments that TCP had to send again."""

    @property
    def usable(self) -> bool:
        return self.reached is Reached.CONNECTED


def usual_rate(rates: list[float], hosts: int) -> float:
    """What a link of the cluster carries: the median, or in small clusters the upper quartile.

    One slow host of four is at one end of half of all links; one of three, of two thirds.
    """
    ordered = sorted(rates)
    share = 0.75 if hosts <= SMALL else 0.5
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCompared(Fact):
    """By how much ``target``'s clock is ahead of ``source``'s, in the quickest exchange."""

    source: str
    target: str
    ahead_s: float
    uncertain_s: float
    source_rank: int | None = None
    target_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounters(Fact):
    """Packets of one interface, in total and during the check."""

    host: str
    interface: str
    packets: int
    errors: int
    dropped: int
    packets_now: int = 0
    errors_now: int = 0
    dropped_now: int = 0
    kinds: str = ""
    """Which counters of errors are not zero, as the kernel names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcExchanged(Fact):
    """A real gRPC call between two hosts. ``error`` None: it was answered."""

    source: str
    target: str
    source_rank: int | None = None
    target_rank: int | None = None
    address: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMissing(Fact):
    """A process of the job never came to the meeting of the check. ``rank`` says which."""

    waited_s: float
    host: str | None = None
    arrived: int = 0
    expected: int = 0
    reached: Reached | None = None
    """The result of trying to reach its host, if known. REFUSED: the host itself answers."""
    said: str = ""
    loopback: str | None = None
    """The address where rank 0 waited, if it means the host itself and no launcher says that all ranks are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(Fact):
    """A process of the check disconnected during it. ``rank`` says which."""

    host: str
    during: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingFailed(Fact):
    """A process could not reach rank 0's check."""

    where: str
    reached: Reached
    waited_s: float
    said: str = ""
    loopback: str | None = None
    """The address that was tried, if it means the host itself and no launcher says that all ranks are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingPortsTaken(Fact):
    """Rank 0 found no port to listen on for the check."""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNotStarted(Fact):
    """``keepstep check --hosts`` could not start the check on a host."""

    host: str
    status: int
    said: str = ""
