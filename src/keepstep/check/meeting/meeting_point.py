# SPDX-License-Identifier: Apache-2.0
"""How the processes of one check find each other: rank 0 listens, the others come.

**Where.** ``--meet HOST:PORT``, else on the host of the job's own meeting place (MASTER_ADDR, JAX's coordinator) or of
its first task, on a port derived from the job's identity. The job's own port is not used: the launcher may hold it, and
the check examines it. Four ports are tried in turn, in case one is taken.

**Who.** Every process must know the token: KEEPSTEP_TOKEN, else one derived from the job's identity (the scheduler's
job id and the address of rank 0). The derived token keeps out other jobs, port scanners and mistakes. It does not keep
out a user who can see the job's variables (on most clusters: every user, through the scheduler): set KEEPSTEP_TOKEN to
a secret where that matters. Nothing that arrives is executed, and an intruder could at most spoil the report.

**How long.** Rank 0 waits for ``--wait`` seconds, then continues with the ranks that came; a missing one is a finding.
"""

from __future__ import annotations

import contextlib
import hashlib
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keepstep.base.launchers import LAUNCHERS
from keepstep.check.meeting.connection import ProvenConnection, ProvenListener, call
from keepstep.check.network.probe import ProbeContact, connect, failed
from keepstep.check.place import Place
from keepstep.cluster.address import is_loopback, read_address
from keepstep.errors import UserError
from keepstep.model.facts.links import Reached
from keepstep.sources.host import this_host as this_host
from keepstep.sources.host.ports import listen

FIRST_PORT, PORTS = 23_400, 1000
"""Below the ports that kernels hand out, and used by no framework."""
TRIES = 4
LONGEST_WAIT_S = 86_400.0
HELLO_S = 5.0
CALL_S = 1.5
ELSEWHERE_S = 3.0
PAUSE_S = 0.15
MOST_GREETED = 64
MOST_NAME = 256


@dataclass(frozen=True, kw_only=True)
class Appointment:
    """Where and with whom the processes of one check meet."""

    host: str
    ports: tuple[int, ...]
    token: bytes = field(repr=False)
    identity: str
    leads: bool
    """Whether this process is the one that listens."""
    expected: tuple[int, ...] | None
    """The ranks of the others; None if their number is unknown."""
    wait: float
    alone: bool = False
    """Whether all processes are on this host."""

    @property
    def where(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.ports[0]}" + (f" to {self.ports[-1]}" if len(self.ports) > 1 else "")


def arrange(place: Place, meet: str | None, wait: float) -> Appointment | None:
    """The appointment of this process; None if it is the only one, or if the others cannot be found."""
    cluster = place.cluster
    port: int | None = None
    if not 0 <= wait <= LONGEST_WAIT_S:
        raise UserError(f"--wait must be from 0 to {LONGEST_WAIT_S:.0f} seconds, not {wait:g}")
    if meet is not None:
        address = read_address(meet)
        if address.host is None or address.port is None:
            raise UserError(f"--meet {meet[:100]} is not HOST:PORT", hint="for example --meet node-0:23400")
        host, port = address.host, address.port
    else:
        if cluster is None or cluster.size < 2:
            return None
        found = _host_of_rank_0(place)
        if found is None:
            return None
        host = found
    identity = _identity(place, host)
    secret = place.env.get("KEEPSTEP_TOKEN") or f"keepstep check of {identity}"
    me = cluster.me if cluster else None
    return Appointment(
        host=host,
        ports=(port,) if port else derived_ports(identity),
        token=hashlib.sha256(secret.encode("utf-8", "replace")).digest(),
        identity=identity,
        leads=me == 0 if me is not None else _is_here(host),
        expected=tuple(task.rank for task in cluster.tasks if task.rank != 0) if cluster and cluster.size > 1 else None,
        wait=wait,
        alone=is_loopback(host),
    )


def derived_ports(identity: str) -> tuple[int, ...]:
    """The ports to try, the same in every process of the job."""
    number = int.from_bytes(hashlib.sha256(f"ports of {identity}".encode("utf-8", "replace")).digest()[:8], "big")
    return tuple(FIRST_PORT + (number + 211 * turn) % PORTS for turn in range(TRIES))


def _host_of_rank_0(place: Place) -> str | None:
    cluster = place.cluster
    assert cluster is not None
    if cluster.meeting and (host := read_address(cluster.meeting).host):
        return host
    first = next((task.host for task in cluster.tasks if task.rank == 0), None)
    if first is None and _all_here(place.env, cluster.size):
        return "127.0.0.1"
    return first


def _all_here(env: Mapping[str, str], size: int) -> bool:
    return any(env.get(name) == str(size) for each in LAUNCHERS for name in each.local_size)


def _identity(place: Place, host: str) -> str:
    """What all processes of the job agree on, even if their descriptions of the cluster differ."""
    cluster = place.cluster
    job = (cluster.job if cluster else None) or ""
    return f"{job} at {(cluster.meeting if cluster and cluster.meeting else host)}"


def _is_here(host: str) -> bool:
    if is_loopback(host) or host == socket.gethostname():
        return True
    addresses, _ = this_host.resolve([host])[host]
    own = {address for each in this_host.interfaces() for address in each.addresses}
    return host in own or any(address in own or is_loopback(address) for address in addresses)


@dataclass(eq=False)
class Attendee:
    """A process that came."""

    connection: ProvenConnection
    rank: int | None
    host: str
    who: str
    """Its host, as the network identifies hosts."""
    addresses: tuple[str, ...]
    seen_at: str
    """The address it came from."""
    gone: bool = False


class Desk:
    """Where rank 0 receives the others. Call ``close``, even if something goes wrong."""

    def __init__(
        self, appointment: Appointment, listening: socket.socket, on_lost: Callable[[Attendee, str, str], None]
    ) -> None:
        self._appointment = appointment
        self._on_lost = on_lost
        self._arrived = threading.Condition()
        self._closed = False
        self.guests: list[Attendee] = []
        self._listener = ProvenListener(appointment.token, self._greet, MOST_GREETED)
        self._listener.add(listening)

    def wait(self) -> float:
        """Wait until all have come or the time is up. Returns the seconds it took."""
        began = time.monotonic()
        with self._arrived:
            self._arrived.wait_for(self._complete, self._appointment.wait)
        return time.monotonic() - began

    def missing(self) -> tuple[int, ...]:
        came = {guest.rank for guest in self.guests}
        return tuple(rank for rank in self._appointment.expected or () if rank not in came)

    def ask(
        self,
        requests: Mapping[Attendee, dict[str, Any]],
        within: float,
        during: str,
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[Attendee, dict[str, Any]]:
        """Send each its request and collect the answers; a process that does not answer is dropped."""
        waiting: set[Attendee] = set()
        for guest, request in requests.items():
            if not guest.gone:
                try:
                    guest.connection.send(request)
                    waiting.add(guest)
                except OSError as error:
                    self._lose(guest, during, error)
        if meanwhile is not None:
            meanwhile()
        return self._collect(waiting, time.monotonic() + within, during)

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        for guest in self.guests:
            guest.connection.close()

    def _complete(self) -> bool:
        expected = self._appointment.expected
        return expected is not None and (len(self.guests) >= len(expected) or not self.missing())

    def _collect(self, waiting: set[Attendee], deadline: float, during: str) -> dict[Attendee, dict[str, Any]]:
        answers: dict[Attendee, dict[str, Any]] = {}
        with selectors.DefaultSelector() as ready:
            for guest in waiting:
                guest.connection.socket.settimeout(0.5)
                ready.register(guest.connection.socket, selectors.EVENT_READ, guest)
            while waiting and (left := deadline - time.monotonic()) > 0:
                for key, _ in ready.select(left):
                    guest = key.data
                    try:
                        guest.connection.read_some()
                        message = guest.connection.waiting()
                    except OSError as error:
                        message = None
                        waiting.discard(guest)
                        ready.unregister(key.fileobj)
                        self._lose(guest, during, error)
                    if message is not None:
                        answers[guest] = message
                        waiting.discard(guest)
                        ready.unregister(key.fileobj)
        for guest in waiting:
            self._lose(guest, during, TimeoutError("it did not answer in time"))
        return answers

    def _lose(self, guest: Attendee, during: str, error: OSError) -> None:
        guest.gone = True
        guest.connection.close()
        self._on_lost(guest, during, error.strerror or str(error) or type(error).__name__)

    def _greet(self, connection: ProvenConnection, address: str) -> bool:
        guest = _introduced(connection, connection.receive(HELLO_S), address)
        connection.send({"welcome": True})
        with self._arrived:
            if self._closed or len(self.guests) > 2 * len(self._appointment.expected or range(10_000)):
                return False
            self.guests.append(guest)
            self._arrived.notify_all()
        return True


def _introduced(connection: ProvenConnection, told: dict[str, Any], address: str) -> Attendee:
    rank = told["rank"]
    if rank is not None and (not isinstance(rank, int) or not 0 <= rank < 10_000_000):
        raise ValueError("no rank")
    return Attendee(
        connection=connection,
        rank=rank,
        host=str(told["host"])[:MOST_NAME],
        who=str(told["who"])[:MOST_NAME],
        addresses=tuple(str(each)[:64] for each in told["addresses"][:256]),
        seen_at=address.removeprefix("::ffff:"),
    )


def open_desk(
    appointment: Appointment, hello: dict[str, Any], on_lost: Callable[[Attendee, str, str], None]
) -> Desk | ProvenConnection | None:
    """Begin to listen. Returns a connection to another process that leads this check; None if every port is taken."""
    _allow_many_files(len(appointment.expected or ()))
    if not _is_here(appointment.host):
        # two processes may both believe they are rank 0; the one at the meeting's address leads
        other = join(replace(appointment, wait=min(appointment.wait, ELSEWHERE_S)), hello)
        if isinstance(other, ProvenConnection):
            return other
    for port in appointment.ports:
        try:
            return Desk(appointment, listen(port, "127.0.0.1" if appointment.alone else None), on_lost)
        except (OSError, OverflowError):
            joined = _try(appointment, "127.0.0.1", port, hello)
            if isinstance(joined, ProvenConnection):
                return joined
    return None


def _allow_many_files(guests: int) -> None:
    """One connection per process, and some spare."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * guests + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
            )


def join(appointment: Appointment, hello: dict[str, Any]) -> ProvenConnection | ProbeContact:
    """Connect to rank 0, for as long as the appointment says; else how the last attempt failed."""
    deadline = time.monotonic() + appointment.wait
    best = ProbeContact(Reached.NO_ANSWER, "no answer")
    while True:
        attempts = []
        for port in appointment.ports:
            found = _try(appointment, appointment.host, port, hello, max(0.3, min(CALL_S, deadline - time.monotonic())))
            if isinstance(found, ProvenConnection):
                return found
            attempts.append(found)
            if found.reached is Reached.UNRESOLVED or time.monotonic() > deadline:
                break
        # the first port's answer counts: the others are for when it is taken
        best = attempts[0]
        if time.monotonic() + PAUSE_S > deadline:
            return best
        time.sleep(PAUSE_S)


def _try(
    appointment: Appointment, host: str, port: int, hello: dict[str, Any], within: float = CALL_S
) -> ProvenConnection | ProbeContact:
    raw = connect(host, port, within)
    if isinstance(raw, ProbeContact):
        return raw
    try:
        connection = call(raw, appointment.token, within)
        connection.send(hello)
        if connection.receive(HELLO_S).get("welcome"):
            return connection
    except (OSError, ValueError) as error:
        raw.close()
        return failed(error) if isinstance(error, OSError) else ProbeContact(Reached.STRANGER, str(error))
    raw.close()
    return ProbeContact(Reached.STRANGER, "not welcome")
