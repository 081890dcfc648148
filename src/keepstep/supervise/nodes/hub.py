# SPDX-License-Identifier: Apache-2.0
"""The leader's side of all links: one port, one thread, and one queue of what happened on any of them."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial

from keepstep.cluster.address import joined
from keepstep.supervise.nodes.dial import plain_address
from keepstep.supervise.nodes.link import (
    CLOSED_HERE,
    CLOSED_THERE,
    CUT_OFF,
    MOST_QUEUED,
    NOT_READ,
    CannotListen,
    Event,
    Got,
    LinkLost,
    Lost,
    Opened,
    TurnedAway,
    encoded,
    evidence,
)
from keepstep.supervise.nodes.loop import Loop
from keepstep.supervise.nodes.memory_link import MemoryLink
from keepstep.supervise.nodes.messages import Message, decode
from keepstep.supervise.nodes.queues import Inbox, Source
from keepstep.supervise.nodes.secret import Secret
from keepstep.supervise.nodes.tls import contexts
from keepstep.supervise.nodes.wire import PipeChannel, TlsChannel, Wire, keep_short, tune

BACKLOG = 1024
MOST_AT_ONCE = 16
"""New connections between two looks at the others."""
GREET_S = 20.0
"""For a handshake. It takes milliseconds, or seconds between processes that share a core with hundreds of others."""
MOST_GREETED = 512
"""Handshakes at once. One more, and the oldest ends: visitors who say nothing keep nobody out."""
MOST_TURNED_AWAY = 100
"""So many are reported, in case somebody tries all day."""
LOCAL = "this process"
REST_S = 0.5
"""After this process has run out of file descriptors."""


class Hub:
    """Listens at an address, and holds the links of all agents that come and know the secret."""

    def __init__(
        self,
        secret: Secret | None,
        host: str | None = None,
        port: int | None = None,
        *,
        on_link: Callable[[int, str], None] | None = None,
    ) -> None:
        """``host``: an address of this machine, or None for all. ``port``: None for a free one.

        Without a secret it does not listen: links come only by :meth:`local` and :meth:`over_pipe`. ``on_link`` is
        called with the number and the address of each new link, in the hub's thread, before any event.
        """
        self._context = contexts(secret)[0] if secret is not None else None
        self._listener = _listen(host, port) if secret is not None else None
        self.address: tuple[str, int] | None = self._listener.getsockname()[:2] if self._listener is not None else None
        self._on_link = on_link
        self._inbox: Inbox[Event] = Inbox()
        self._loop = Loop(self._inbox, "keepstep hub")
        self._numbers = itertools.count(1)
        self._locals: dict[int, _LocalEnd] = {}
        self._greeted: dict[Wire, TlsChannel] = {}
        self._turned_away = 0
        if self._listener is not None:
            self._loop.selector.register(self._listener, 1, self._accept)
        self._loop.start()

    # --- for the leader's thread

    def receive(self, timeout_s: float) -> Event | None:
        """What happened next; None if nothing did in time."""
        return self._inbox.take(timeout_s)

    def send(self, link: int, message: Message) -> bool:
        """Queue a message; never waits. False if that link is gone, which an event says or has said."""
        wire = self._loop.wires.get(link)
        local = self._locals.get(link)
        try:
            if wire is not None:
                self._loop.send(wire, message)
            elif local is not None:
                local.send(message)
            return wire is not None or local is not None
        except LinkLost:
            return False

    def queued(self, link: int) -> int:
        """Bytes that wait to be sent."""
        wire, local = self._loop.wires.get(link), self._locals.get(link)
        if local is not None:
            return local.link.unread
        return wire.queued if wire is not None else 0

    def fileno(self) -> int:
        """Polls readable while :meth:`receive` has something."""
        return self._inbox.fileno()

    def end(self, link: int, flush_s: float = 1.0) -> None:
        """Close one link, once the other side has taken what was sent."""
        wire = self._loop.wires.get(link)
        local = self._locals.get(link)
        if wire is not None:
            self._loop.finish(wire, flush_s)
        elif local is not None:
            local.link.part(CLOSED_THERE)
            local.part(CLOSED_HERE)

    def close(self, flush_s: float = 1.0) -> None:
        """Stop to listen, and close all links, each once the other side has taken what was sent."""
        self._loop.soon(self._stop_listening)
        for link in tuple(self._locals):
            self.end(link)
        self._loop.close(flush_s)
        if self._listener is not None:
            self._listener.close()
        self._inbox.close()

    def local(self, peer: str = LOCAL) -> MemoryLink:
        """A link to this hub from within the process."""
        link = MemoryLink(peer)
        end = _LocalEnd(next(self._numbers), link, self._inbox, self._locals)
        link.other = end
        self._locals[end.number] = end
        self._opened(end.number, peer, end)
        return link

    def over_pipe(self, read_fd: int, write_fd: int, peer: str) -> int:
        """Add a link over pipes, such as ssh's stdin and stdout; its number. See `dial.over_pipe`."""
        wire = Wire(next(self._numbers), PipeChannel(read_fd, write_fd), peer, may_stray=True)
        self._loop.wires[wire.number] = wire
        self._opened(wire.number, peer, wire)
        self._loop.soon(partial(self._loop.add, wire))
        return wire.number

    # --- in the hub's thread

    def _accept(self, events: int) -> None:
        assert self._listener is not None and self._context is not None
        for _ in range(MOST_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError:  # no file descriptor or memory is left: what came already goes first
                self._loop.selector.unregister(self._listener)
                self._loop.later(self._listener, REST_S, self._listen_again)
                return
            try:
                tune(connection)
                connection.setblocking(False)
                secured = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            except OSError:  # it has gone already
                connection.close()
                continue
            channel = TlsChannel(secured)
            self._greet(Wire(next(self._numbers), channel, plain_address(address)), channel)

    def _listen_again(self) -> None:
        assert self._listener is not None
        self._loop.selector.register(self._listener, 1, self._accept)

    def _stop_listening(self) -> None:
        if self._listener is None:
            return
        if self._listener in self._loop.selector.get_map():
            self._loop.selector.unregister(self._listener)
        self._loop.call_off(self._listener)
        self._listener.close()
        for wire in tuple(self._greeted):
            self._drop(wire)

    def _greet(self, wire: Wire, channel: TlsChannel) -> None:
        if len(self._greeted) >= MOST_GREETED:
            self._drop(next(iter(self._greeted)))
        self._greeted[wire] = channel
        self._loop.later(wire, GREET_S, partial(self._drop, wire))
        self._go_on(wire, 0)

    def _go_on(self, wire: Wire, events: int) -> None:
        channel = self._greeted.get(wire)
        if channel is None:
            return
        try:
            must_write = channel.greet()
        except OSError as error:
            self._drop(wire)
            self._refuse(wire, error)
            return
        if must_write is not None:
            self._loop.watch_for(wire, {channel.read_fd: 2 if must_write else 1}, partial(self._go_on, wire))
            return
        del self._greeted[wire]
        self._loop.call_off(wire)
        self._loop.watch_for(wire, {}, lambda events: None)
        self._loop.wires[wire.number] = wire
        self._opened(wire.number, wire.peer, wire)
        self._loop.add(wire)
        self._loop.look(wire)

    def _drop(self, wire: Wire) -> None:
        self._greeted.pop(wire, None)
        self._loop.forget(wire, CLOSED_HERE)

    def _refuse(self, wire: Wire, error: OSError) -> None:
        if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
            return  # it came and went, as port scanners do
        if self._turned_away < MOST_TURNED_AWAY:
            self._turned_away += 1
            knows_tls = "CERTIFICATE" in (error.reason or "") or "ALERT" in (error.reason or "")
            why = "it does not know this run's secret" if knows_tls else f"it is no agent of keepstep ({error.reason})"
            self._inbox.put(wire, TurnedAway(wire.peer, why))

    def _opened(self, number: int, peer: str, source: Source) -> None:
        if self._on_link is not None:
            self._on_link(number, peer)
        self._inbox.put(source, Opened(number, peer))


class _LocalEnd(Source):
    """The hub's end of a link in memory."""

    def __init__(self, number: int, link: MemoryLink, inbox: Inbox[Event], known: dict[int, _LocalEnd]) -> None:
        self.number, self.link = number, link
        self._inbox, self._known = inbox, known
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        waiting = self.link.arrive(encoded(message), evidence=evidence(message))
        if waiting > MOST_QUEUED:
            self.link.part(CUT_OFF)
            self.part(NOT_READ.format(waiting / 1e6))
            raise LinkLost(CUT_OFF)

    def arrive(self, line: bytes, *, evidence: bool) -> int:
        self._inbox.put(self, Got(self.number, decode(line)), len(line), evidence=evidence)
        return self.waiting

    def part(self, why: str) -> None:
        with self._lock:
            known = self._known.pop(self.number, None)
        if known is not None:
            self._inbox.put_last(self, Lost(self.number, why))

    @property
    def unread(self) -> int:
        return self.waiting


def _listen(host: str | None, port: int | None) -> socket.socket:
    """A listening socket, for IPv6 and IPv4 where no address was given."""
    try:
        if not host:
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            listener = socket.create_server(("", port or 0), family=family, backlog=BACKLOG, dualstack_ipv6=both)
        else:
            family, _, _, _, address = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
            listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        where = joined(host, port) or host or f"port {port}"
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotListen(f"the leader cannot listen at {where}: {said}") from None
    keep_short(listener)
    listener.setblocking(False)
    return listener
