# SPDX-License-Identifier: Apache-2.0
"""The calling end of a link: how a connection fails, or its latency and rate, and whether full packets get through."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from dataclasses import dataclass
from statistics import median

from keepstep.check.meeting.connection import ProvenConnection, UnprovenPeer, call
from keepstep.check.network.answers import ECHO, read_exactly
from keepstep.model.facts.links import Reached
from keepstep.sources.host.interfaces import tcp_state, waited_for_processor

CONNECT_S = 1.5
"""The first SYN is sent again after one second; losing two by chance is rare."""
ANSWER_S = 4.0
ECHOES = 9
FULL_S = 1.5
"""A lost packet is sent again after 0.2, 0.6 and 1.4 seconds; four losses in a row are not chance."""
SMALLER_S = 0.7
SMALLER = (1400, 1280, 1000, 576)
"""Packet sizes to try where the full size gets lost: tunnels, IPv6's minimum, the oldest links."""
HEADERS, MORE_IN_IPV6 = 40 + 12, 20
"""Bytes of a packet before its payload: IPv4 and TCP with time stamps."""
BULK_S = 0.05
LEAST_SHARE = 0.2
"""At least this share of the time counts, however long the process waited for its processor."""
REFUSED = (errno.ECONNREFUSED,)
RESET = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)
REJECTED = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EHOSTDOWN, errno.ENETDOWN)


@dataclass
class ProbeContact:
    """What one connection gave."""

    reached: Reached
    said: str = ""
    latency_s: float | None = None
    quickest_s: float | None = None
    ahead_s: float | None = None
    rate_bytes_s: float | None = None
    full_size: int | None = None
    passed_size: int | None = None
    resent: int | None = None


def connect(address: str, port: int, within: float = CONNECT_S) -> socket.socket | ProbeContact:
    """A connection, or how it failed."""
    try:
        return socket.create_connection((address, port), timeout=within)
    except OSError as error:
        return failed(error)
    except (ValueError, OverflowError) as error:  # an invalid name or port
        return ProbeContact(Reached.UNRESOLVED, str(error)[:200])


def failed(error: OSError) -> ProbeContact:
    """What a kernel error says about reaching a host."""
    said = error.strerror or str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        return ProbeContact(Reached.UNRESOLVED, said)
    if isinstance(error, UnprovenPeer):
        return ProbeContact(Reached.STRANGER, said)
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return ProbeContact(Reached.NO_ANSWER, "no answer")
    if error.errno in REFUSED:
        return ProbeContact(Reached.REFUSED, said)
    if error.errno in REJECTED:
        return ProbeContact(Reached.REJECTED, said)
    if error.errno in RESET or isinstance(error, ConnectionError):
        return ProbeContact(Reached.RESET, said)
    return ProbeContact(Reached.REJECTED, said)


def probe(
    address: str, port: int, token: bytes, who: str, *, bulk_s: float | None = BULK_S, within: float = CONNECT_S
) -> ProbeContact:
    """Call ``who`` at an address: the handshake, and the measurements if the longest of them is given a time."""
    raw = connect(address, port, within)
    if isinstance(raw, ProbeContact):
        return raw
    try:
        try:
            connection = call(raw, token)
            told = connection.receive(within)
        except TimeoutError:
            return ProbeContact(Reached.SILENT, "connected, then no answer")
        if told.get("who") != who:
            return ProbeContact(Reached.STRANGER, "another host of this job answered")
        found = ProbeContact(Reached.CONNECTED)
        if bulk_s is not None:
            _measure(connection, found, bulk_s)
            if found.passed_size is not None:
                found.passed_size = _passing(address, port, token, found.full_size or 0)
        return found
    except OSError as error:
        return failed(error)
    finally:
        _drop(raw)


def _measure(connection: ProvenConnection, found: ProbeContact, bulk_s: float) -> None:
    _echo(connection, found)
    state = tcp_state(connection.socket)
    if state is not None:
        found.full_size = state.segment + _headers(connection.socket)
        if not _passes(connection, state.segment, FULL_S):
            found.passed_size = 0
            return
    found.rate_bytes_s = _bulk(connection, bulk_s)
    state = tcp_state(connection.socket)
    found.resent = state.resent if state else None


def _ask(connection: ProvenConnection, what: dict[str, float]) -> None:
    connection.send(what)
    connection.receive(ANSWER_S)


def _echo(connection: ProvenConnection, found: ProbeContact) -> None:
    raw = connection.socket
    _ask(connection, {"echoes": ECHOES})
    trips: list[tuple[float, float]] = []
    for _ in range(ECHOES):
        sent, began = time.time(), time.perf_counter()
        raw.sendall(b"?")
        came, went = ECHO.unpack(read_exactly(raw, ECHO.size))
        trips.append((time.perf_counter() - began, ((came - sent) + (went - time.time())) / 2))
    quickest = min(trips)
    found.latency_s, found.quickest_s, found.ahead_s = median(trip for trip, _ in trips), *quickest


def _passes(connection: ProvenConnection, size: int, within: float) -> bool:
    """Whether one packet with this much payload is acknowledged. The kernel sets "do not fragment" on it."""
    raw = connection.socket
    _ask(connection, {"packet": size})
    try:
        raw.settimeout(within)
        raw.sendall(bytes(size))
        return read_exactly(raw, 1) == b"!"
    except TimeoutError:
        return False


def _passing(address: str, port: int, token: bytes, full: int) -> int:
    """The largest of the usual sizes that gets through, each on its own connection; 0: none."""
    for size in SMALLER:
        if size >= full:
            continue
        raw = connect(address, port)
        if isinstance(raw, ProbeContact):
            return 0
        try:
            connection = call(raw, token)
            connection.receive(SMALLER_S)
            if _passes(connection, size - _headers(raw), SMALLER_S):
                return size
        except OSError:
            continue
        finally:
            _drop(raw)
    return 0


def _headers(raw: socket.socket) -> int:
    return HEADERS + (MORE_IN_IPV6 if raw.family == socket.AF_INET6 else 0)


def _bulk(connection: ProvenConnection, seconds: float) -> float | None:
    """Bytes per second that arrive, 0 if the link stalls; what is still in flight when the time is up is discarded."""
    raw = connection.socket
    _ask(connection, {"bulk_s": seconds})
    block = memoryview(bytes(1 << 18))
    raw.setblocking(False)
    deadline = time.monotonic() + seconds + 3.0
    waited = waited_for_processor()
    ready = select.poll()
    ready.register(raw, select.POLLIN | select.POLLOUT)
    while time.monotonic() < deadline:
        events = sum(event for _, event in ready.poll(500))
        if events & ~select.POLLOUT:
            break
        if events:
            with contextlib.suppress(BlockingIOError):
                raw.send(block)
    try:
        told = connection.receive(max(0.1, deadline - time.monotonic()))
    except TimeoutError:
        return 0.0
    size, took = int(told["bytes"]), float(told["seconds"])
    idle = max(float(told["waited"]), waited_for_processor() - waited)
    return size / max(took - idle, took * LEAST_SHARE) if took > 0 else None


def _drop(raw: socket.socket) -> None:
    """Close, and discard what was not yet sent."""
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
