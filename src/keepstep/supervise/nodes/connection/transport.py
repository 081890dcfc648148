# SPDX-License-Identifier: Apache-2.0
"""What carries a connection: TLS over TCP, or pipes. Bytes in and out without waiting, and why they stop."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import stat
from typing import Protocol

from keepstep.sources.host.interfaces import unacknowledged
from keepstep.supervise.nodes.connection.interface import CLOSED_THERE, CannotConnect

PIECE = 64 << 10
SILENT_S = 8.0
"""How long data may stay unacknowledged. As long as a lease: after that the node's ranks end anyway."""
UNSENT = 128 << 10
"""Bytes that the kernel takes beyond what is under way: a beat waits behind no more than these."""
UNREAD = 256 << 10
"""Bytes that the kernel holds for a process that is slow to read."""


class Transport(Protocol):
    """Bytes in and out, without waiting. Every method may raise ``OSError``."""

    @property
    def read_fd(self) -> int: ...

    @property
    def write_fd(self) -> int: ...

    def read(self) -> bytes | None:
        """What has come; empty at the end; None if nothing has come yet."""

    def pending(self) -> int:
        """Bytes that can be read although the kernel does not know of them."""

    def write(self, data: memoryview) -> int:
        """How many bytes were taken."""

    def unacknowledged(self) -> int:
        """Bytes that have left this process and may not have reached the other machine; at least one if unknown."""

    def end_writing(self) -> None: ...

    def close(self) -> None: ...


class TlsTransport:
    """A TCP connection with TLS."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._socket = connection
        self.read_fd = self.write_fd = connection.fileno()

    def greet(self) -> bool | None:
        """Go on with the handshake. None: done; else whether it must write, rather than read, before it can go on."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            return True
        return None

    def read(self) -> bytes | None:
        try:
            if not self.pending() and not self._peek():
                return b""
            return self._socket.recv(PIECE)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def pending(self) -> int:
        return self._socket.pending()

    def write(self, data: memoryview) -> int:
        with contextlib.suppress(BlockingIOError):
            self._peek()
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return 0
        except ssl.SSLEOFError:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None

    def _peek(self) -> bytes:
        """Raises why the connection broke: ``ssl`` calls every failure of a system call the end (since Python 3.10).

        SO_ERROR would not do: it has what TCP survives as well, such as a router's "unreachable".
        """
        return socket.socket.recv(self._socket, 1, socket.MSG_PEEK)

    def unacknowledged(self) -> int:
        return unacknowledged(self._socket, 1)

    def end_writing(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)  # what is read from now on is not decrypted any more, nor looked at

    def close(self) -> None:
        self._socket.close()


class PipeTransport:
    """Two pipes, or one socket: what ssh gives a program as its stdin and stdout."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        for each in (read_fd, write_fd):
            mode = os.fstat(each).st_mode
            if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(each)):
                raise CannotConnect("a connection needs pipes as its stdin and stdout, not files or /dev/null")
        self.read_fd, self.write_fd = read_fd, write_fd
        self._open = {read_fd, write_fd}
        for each in self._open:
            os.set_blocking(each, False)

    def read(self) -> bytes | None:
        try:
            return os.read(self.read_fd, PIECE)
        except BlockingIOError:
            return None

    def pending(self) -> int:
        return 0

    def write(self, data: memoryview) -> int:
        try:
            return os.write(self.write_fd, data)
        except BlockingIOError:
            return 0

    def unacknowledged(self) -> int:
        return 1

    def end_writing(self) -> None:
        if self.write_fd != self.read_fd:
            self._open.discard(self.write_fd)
            os.close(self.write_fd)

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def words_for(error: OSError) -> str:
    """Why a connection broke."""
    if isinstance(error, ssl.SSLError):
        return f"what arrived was not what the other side sent ({error.reason or error})"
    known = {
        errno.ECONNRESET: "the other side reset the connection",
        errno.EPIPE: CLOSED_THERE,
        errno.ETIMEDOUT: f"nothing reached the other side for {SILENT_S:g} s",
        errno.EHOSTUNREACH: "there is no way to the other side any more",
        errno.ENETUNREACH: "there is no way to the other side's network any more",
    }
    return known.get(error.errno or 0) or (error.strerror or type(error).__name__)


def keep_short(endpoint: socket.socket) -> None:
    """Before it connects or listens: let no megabytes of evidence wait in the kernel, before a beat that follows."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD)


def tune(connection: socket.socket) -> None:
    """Small messages leave at once, and a dead connection is noticed within a lease. Survives a cut of some seconds."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        getattr(socket, "TCP_KEEPIDLE", None): 4,
        getattr(socket, "TCP_KEEPINTVL", None): 2,
        getattr(socket, "TCP_KEEPCNT", None): 2,
        getattr(socket, "TCP_USER_TIMEOUT", None): int(SILENT_S * 1000),
        getattr(socket, "TCP_NOTSENT_LOWAT", None): UNSENT,
        _RTO_MAX_MS: 1000,
    }
    for option, value in wanted.items():
        if option is not None:
            with contextlib.suppress(OSError):  # an older kernel
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


_RTO_MAX_MS = 44 if os.uname().sysname == "Linux" else None
"""TCP_RTO_MAX_MS (Linux 6.15): tries at least once per second, so what waited arrives soon after a cut ends."""
