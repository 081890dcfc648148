# SPDX-License-Identifier: Apache-2.0
"""An agent's connection to the leader: over the network, or over the pipes that ssh gives it."""

from __future__ import annotations

import errno
import queue
import socket
import ssl
import threading
import time
from typing import Any

from keepstep.cluster.address import joined
from keepstep.supervise.nodes.connection.interface import CannotConnect, Connection, Stranger
from keepstep.supervise.nodes.connection.secret import Secret
from keepstep.supervise.nodes.connection.thread import ConnectionThread, QueuedConnection
from keepstep.supervise.nodes.connection.tls import contexts
from keepstep.supervise.nodes.connection.transport import PipeTransport, TlsTransport, keep_short, tune
from keepstep.supervise.nodes.messages import Message

SHORTEST_TRY_S = 0.2


def connect(
    secret: Secret, host: str, port: int, timeout_s: float, *, handshake_s: float | None = None
) -> ThreadedConnection:
    """A connection to the leader at this address. Raises :class:`CannotConnect` within ``timeout_s`` or little more.

    ``handshake_s``: for a leader's machine that has taken the connection, while its process is too busy to greet. More
    connections would make that worse.
    """
    ends = time.monotonic() + timeout_s
    _, context = contexts(secret)
    where = joined(host, port) or host
    connection = _first_that_answers(_resolved(host, port, ends, timeout_s), where, ends, timeout_s)
    try:
        tune(connection)
        connection.settimeout(max(handshake_s or 0.0, ends - time.monotonic(), SHORTEST_TRY_S))
        secured = context.wrap_socket(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, OSError):
            raise _no_handshake(error, where, max(handshake_s or 0.0, timeout_s)) from None
        raise
    secured.setblocking(False)
    return ThreadedConnection(QueuedConnection(0, TlsTransport(secured), plain_address(secured.getpeername())))


def over_pipe(read_fd: int, write_fd: int, peer: str) -> ThreadedConnection:
    """A connection over pipes, such as ssh's stdin and stdout. It owns both from now on, and makes them non-blocking.

    Text that a shell prints before the other side's first message is skipped.
    """
    return ThreadedConnection(QueuedConnection(0, PipeTransport(read_fd, write_fd), peer, may_stray=True))


class ThreadedConnection(Connection):
    """A connection with a thread of its own."""

    def __init__(self, connection: QueuedConnection) -> None:
        super().__init__(connection.peer)
        self._connection = connection
        self._thread = ConnectionThread(self._inbox, "keepstep connection")
        self._thread.add(connection)
        self._thread.start()

    @property
    def queued(self) -> int:
        return self._connection.queued

    @property
    def stuck(self) -> bool:
        with self._connection.lock:
            return self._connection.gone or self._connection.transport.unacknowledged() > 0

    def send(self, message: Message) -> None:
        self._thread.send(self._connection, message)

    def close(self, flush_s: float = 1.0) -> None:
        if self._closed:
            return
        self._closed = True
        self._thread.close(flush_s)
        self._inbox.close()


def plain_address(address: Any) -> str:
    """An address as the user writes it: IPv4 also where an IPv6 socket carries it."""
    host = str(address[0]) if isinstance(address, tuple) else str(address)
    return host.removeprefix("::ffff:") if "." in host else host


def _resolved(host: str, port: int, ends: float, timeout_s: float) -> list[Any]:
    """All addresses of a name. The system's resolver knows no time-out, so it is asked in a thread."""
    answer: queue.SimpleQueue[list[Any] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except (OSError, UnicodeError) as error:
            answer.put(error)

    threading.Thread(target=ask, name="keepstep resolver", daemon=True).start()
    try:
        found = answer.get(timeout=max(ends - time.monotonic(), SHORTEST_TRY_S))
    except queue.Empty:
        raise CannotConnect(f"the name {host} could not be resolved within {timeout_s:g} s") from None
    if isinstance(found, list):
        return found
    said = found.strerror if isinstance(found, OSError) else "it is no host name"
    raise CannotConnect(f"the name {host} cannot be resolved: {said}")


def _first_that_answers(addresses: list[Any], where: str, ends: float, timeout_s: float) -> socket.socket:
    failed: OSError | None = None
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        left = (ends - time.monotonic()) / (len(addresses) - tried)
        try:
            connection = socket.socket(family, kind, protocol)
        except OSError as error:
            failed = failed or error
            continue
        try:
            keep_short(connection)
            connection.settimeout(max(left, SHORTEST_TRY_S))
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            failed = error
    raise _no_connection(failed, where, timeout_s)


def _no_connection(error: OSError | None, where: str, timeout_s: float) -> CannotConnect:
    if isinstance(error, TimeoutError) or (error is not None and error.errno == errno.ETIMEDOUT):
        return CannotConnect(f"{where} did not answer within {timeout_s:g} s")
    if isinstance(error, ConnectionRefusedError):
        return CannotConnect(f"{where} refused the connection: nothing listens there, or a firewall rejects it")
    if error is not None and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return CannotConnect(f"{where} cannot be reached: {error.strerror}")
    return CannotConnect(f"{where} cannot be reached: {error.strerror if error else 'it has no address'}")


def _no_handshake(error: OSError, where: str, timeout_s: float) -> CannotConnect:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Stranger(f"the agent at {where} does not know this run's secret")
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return CannotConnect(f"{where} took the connection and closed it again")
    if isinstance(error, TimeoutError):
        return CannotConnect(f"{where} took the connection, but said nothing within {timeout_s:g} s")
    if isinstance(error, ssl.SSLError):
        return Stranger(f"what listens at {where} does not know this run's secret, and is no agent ({error.reason})")
    return _no_connection(error, where, timeout_s)
