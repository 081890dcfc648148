# SPDX-License-Identifier: Apache-2.0
"""The leader's side of all connections: one port, one thread, and one queue of what happened on any of them."""

from __future__ import annotations

import itertools
import socket
import ssl
from functools import partial

from keepstep.cluster.address import joined
from keepstep.sources.host.ports import listen
from keepstep.sources.host.visitors import Visitors
from keepstep.supervise.nodes.connection.dial import plain_address
from keepstep.supervise.nodes.connection.in_memory import MemoryConnection, MemoryEnd
from keepstep.supervise.nodes.connection.interface import (
    CLOSED_HERE,
    CannotListen,
    ConnectionLost,
    Event,
    Opened,
    TurnedAway,
)
from keepstep.supervise.nodes.connection.queue import Inbox
from keepstep.supervise.nodes.connection.secret import Secret
from keepstep.supervise.nodes.connection.thread import ConnectionThread, QueuedConnection
from keepstep.supervise.nodes.connection.tls import contexts
from keepstep.supervise.nodes.connection.transport import PipeTransport, TlsTransport, keep_short, tune
from keepstep.supervise.nodes.messages import Message

BACKLOG = 1024
MOST_AT_ONCE = 16
"""New connections between two looks at the others."""
GREET_S = 20.0
"""For a handshake. It takes milliseconds, or seconds between processes that share a core with hundreds of others."""
MOST_GREETED = 512
"""Handshakes at once. Visitors who say nothing keep nobody out."""
MOST_TURNED_AWAY = 100
"""So many are reported, in case somebody tries all day."""
LOCAL = "this process"
REST_S = 0.5
"""After this process has run out of file descriptors."""


class Hub:
    """Listens at an address, and holds the connections of all agents that come and know the secret."""

    def __init__(self, secret: Secret | None, host: str | None = None, port: int | None = None) -> None:
        """``host``: an address of this machine, or None for all. ``port``: None for a free one.

        Without a secret it does not listen: connections come only by :meth:`local` and :meth:`over_pipe`.
        """
        self._context = contexts(secret)[0] if secret is not None else None
        self._listener = _listen(host, port) if secret is not None else None
        self.address: tuple[str, int] | None = self._listener.getsockname()[:2] if self._listener is not None else None
        self._inbox: Inbox[Event] = Inbox()
        self._thread = ConnectionThread(self._inbox, "keepstep hub")
        self._numbers = itertools.count(1)
        self._locals: dict[int, _LocalEnd] = {}
        self._greeted: Visitors[QueuedConnection] = Visitors(MOST_GREETED)
        self._turned_away = 0
        if self._listener is not None:
            self._thread.selector.register(self._listener, 1, self._accept)
        self._thread.start()

    # --- for the leader's thread

    def receive(self, timeout_s: float) -> Event | None:
        """What happened next; None if nothing did in time."""
        return self._inbox.take(timeout_s)

    def send(self, number: int, message: Message) -> bool:
        """Queue a message; never waits. False if that connection is gone, which an event says or has said."""
        connection, local = self._thread.connections.get(number), self._locals.get(number)
        try:
            if connection is not None:
                self._thread.send(connection, message)
            elif local is not None:
                local.send(message)
            return connection is not None or local is not None
        except ConnectionLost:
            return False

    def fileno(self) -> int:
        """Polls readable while :meth:`receive` has something."""
        return self._inbox.fileno()

    def end(self, number: int, flush_s: float = 1.0) -> None:
        """Close one connection, once the other side has taken what was sent."""
        connection, local = self._thread.connections.get(number), self._locals.get(number)
        if connection is not None:
            self._thread.finish(connection, flush_s)
        elif local is not None:
            local.close()

    def close(self, flush_s: float = 1.0) -> None:
        """Stop to listen, and close all connections, each once the other side has taken what was sent."""
        self._thread.soon(self._stop_listening)
        for local in tuple(self._locals.values()):
            local.close()
        self._thread.close(flush_s)
        if self._listener is not None:
            self._listener.close()
        self._inbox.close()

    def local(self, peer: str = LOCAL) -> MemoryConnection:
        """A connection to this hub from within the process."""
        connection = MemoryConnection(peer)
        end = _LocalEnd(next(self._numbers), self._inbox, self._locals)
        end.join(connection.end)
        self._locals[end.number] = end
        self._inbox.put(end, Opened(end.number, peer))
        return connection

    def over_pipe(self, read_fd: int, write_fd: int, peer: str) -> int:
        """Add a connection over pipes, such as ssh's stdin and stdout; its number. See `dial.over_pipe`."""
        connection = QueuedConnection(next(self._numbers), PipeTransport(read_fd, write_fd), peer, may_stray=True)
        self._opened(connection)
        self._thread.soon(partial(self._thread.add, connection))
        return connection.number

    # --- in the hub's thread

    def _accept(self, events: int) -> None:
        assert self._listener is not None and self._context is not None
        for _ in range(MOST_AT_ONCE):
            try:
                taken, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError:  # no file descriptor or memory is left: what came already goes first
                self._thread.selector.unregister(self._listener)
                self._thread.later(self._listener, REST_S, self._listen_again)
                return
            try:
                tune(taken)
                taken.setblocking(False)
                secured = self._context.wrap_socket(taken, server_side=True, do_handshake_on_connect=False)
            except OSError:  # it has gone already
                taken.close()
                continue
            self._greet(QueuedConnection(next(self._numbers), TlsTransport(secured), plain_address(address)))

    def _listen_again(self) -> None:
        assert self._listener is not None
        self._thread.selector.register(self._listener, 1, self._accept)

    def _stop_listening(self) -> None:
        if self._listener is None:
            return
        if self._listener in self._thread.selector.get_map():
            self._thread.selector.unregister(self._listener)
        self._thread.call_off(self._listener)
        self._listener.close()
        for connection in tuple(self._greeted):
            self._drop(connection)

    def _greet(self, connection: QueuedConnection) -> None:
        if (dropped := self._greeted.come(connection, connection.peer)) is not None:
            self._drop(dropped)
        self._thread.later(connection, GREET_S, partial(self._drop, connection))
        self._go_on(connection, 0)

    def _go_on(self, connection: QueuedConnection, events: int) -> None:
        transport = connection.transport
        if connection not in self._greeted or not isinstance(transport, TlsTransport):
            return
        try:
            must_write = transport.greet()
        except OSError as error:
            self._drop(connection)
            self._refuse(connection, error)
            return
        if must_write is not None:
            wanted = {transport.read_fd: 2 if must_write else 1}
            self._thread.watch_for(connection, wanted, partial(self._go_on, connection))
            return
        self._greeted.gone(connection)
        self._thread.call_off(connection)
        self._thread.watch_for(connection, {}, lambda events: None)
        self._opened(connection)
        self._thread.add(connection)
        self._thread.look(connection)

    def _drop(self, connection: QueuedConnection) -> None:
        self._greeted.gone(connection)
        self._thread.forget(connection, CLOSED_HERE)

    def _refuse(self, connection: QueuedConnection, error: OSError) -> None:
        if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
            return  # it came and went, as port scanners do
        if self._turned_away < MOST_TURNED_AWAY:
            self._turned_away += 1
            knows_tls = "CERTIFICATE" in (error.reason or "") or "ALERT" in (error.reason or "")
            why = "it does not know this run's secret" if knows_tls else f"it is no agent of keepstep ({error.reason})"
            self._inbox.put(connection, TurnedAway(connection.peer, why))

    def _opened(self, connection: QueuedConnection) -> None:
        self._thread.connections[connection.number] = connection
        self._inbox.put(connection, Opened(connection.number, connection.peer))


class _LocalEnd(MemoryEnd):
    """The hub's end of a connection in memory. All connections share the hub's inbox: only its own evidence counts."""

    def __init__(self, number: int, inbox: Inbox[Event], known: dict[int, _LocalEnd]) -> None:
        super().__init__(number, inbox)
        self._known = known

    @property
    def unread(self) -> int:
        return self.waiting

    def part(self, why: str) -> None:
        self._known.pop(self.number, None)
        super().part(why)


def _listen(host: str | None, port: int | None) -> socket.socket:
    try:
        listener = listen(port or 0, host or None, backlog=BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        where = joined(host, port) or host or f"port {port}"
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotListen(f"the leader cannot listen at {where}: {said}") from None
    keep_short(listener)
    listener.setblocking(False)
    return listener
