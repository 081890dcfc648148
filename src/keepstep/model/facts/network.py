# SPDX-License-Identifier: Apache-2.0
"""What happened between processes on the wire."""

from __future__ import annotations

from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


class Why(Enum):
    """How a connection attempt failed."""

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed out"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectFailed(Fact):
    """An attempt to reach a peer failed. ``final``: the caller gave up."""

    why: Why
    peer: str | None = None
    peer_rank: int | None = None
    final: bool = True
    given_out: bool = False
    """Whether the peer itself gave this address (gloo, NCCL), not the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLost(Fact):
    """An open connection broke, or a peer's heartbeats stopped."""

    how: str
    peer: str | None = None
    peer_rank: int | None = None
    final: bool = True
    """False if a healthy end of a run prints the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStuck(Fact):
    """A live process's connection whose peer does not answer: its packets were sent again ``tries`` times."""

    peer: str
    tries: int
    connecting: bool = False
    """Whether it was never answered; otherwise it was open before."""
    unsent: int = 0
    """Bytes that wait to be acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendsSlowly(Fact):
    """A live process's connection on which something was on its way for much of the time, and little was carried."""

    peer: str
    bytes_s: float
    """While something was on its way."""
    busy: float
    """For which part of the time that was so."""
    seconds: float
    """How long it was watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAwaited(Fact):
    """A process says it is still waiting for another."""

    peer: str | None = None
    peer_rank: int | None = None
    connected: bool = False
    """Whether the cluster answers, and this peer's work is awaited."""
    world: int | None = None
    """How many must come, if the line says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Fact):
    """A process opened a session with its cluster; one that does so repeatedly does not find it ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousTimeout(Fact):
    """Not all members arrived in time. ``joined`` of ``expected``, if given."""

    joined: int | None = None
    expected: int | None = None
    where: str | None = None
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousClosed(Fact):
    """An agent found the rendezvous closed, or in another round."""

    how: str = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortTaken(Fact):
    """Binding to an address failed because another process listens there."""

    port: int | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameUnresolved(Fact):
    """A host name could not be resolved."""

    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceMissing(Fact):
    """A library found no (usable) network interface, or not the configured one."""

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceUsed(Fact):
    """A library says which interface and address it will use."""

    name: str
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportUsed(Fact):
    """A communication library says how two ranks exchange data (``P2P``, ``SHM``, ``NET``)."""

    name: str
    peer_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkChosen(Fact):
    """A communication library says which network it uses between hosts (``IB``, ``Socket``, ``AWS Libfabric``)."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FastNetworkSeen(Fact):
    """A communication library found a faster network than sockets on this host, or failed to start it."""

    name: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressMisled(Fact):
    """An address that a peer gave as its own led nowhere, or to another process."""

    address: str | None = None
    how: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStarted(Fact):
    """A task's server is up, at the address that its cluster gave to this task."""

    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressMap(Fact):
    """A process says where a job's tasks are: ``job worker -> {0 -> a:1, 1 -> b:2}``."""

    job: str
    addresses: tuple[str, ...]
    dense: bool = True
    """Whether it lists all tasks, from 0 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindFailed(Fact):
    """Binding failed because the address is not one of this host's (EADDRNOTAVAIL)."""

    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaTrouble(Fact):
    """InfiniBand, RoCE, EFA or verbs said that something failed. ``fatal``: the transport gave up."""

    what: str
    device: str | None = None
    peer: str | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MtuTrouble(Fact):
    """Full-size packets do not get through."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMtu(Fact):
    """The largest packet that an interface, or one side of a connection, is set to."""

    size: int
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyInTheWay(Fact):
    """A proxy answered or swallowed traffic between ranks."""

    proxy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationFailed(Fact):
    """A communication library gave up with a code of its own and no reason in this line (``ncclSystemError``)."""

    code: str
    one_host: bool = False
    """Whether it was between devices of one process."""
