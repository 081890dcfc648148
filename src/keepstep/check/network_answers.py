# SPDX-License-Identifier: Apache-2.0
"""The called end of a link: listens on the job's own ports where they are free, and does what the caller asks.

After the handshake a caller may ask for echoes (small exchanges with this host's clock), for the acknowledgement of one
packet of a given size, and for a count of what arrives in a given time.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
import time
from typing import Any

from keepstep.check.channel import Channel, answer
from keepstep.sources.host.interfaces import waited_for_processor

MOST_ECHOES = 100
LARGEST_PACKET = 70_000
LONGEST_BULK_S = 5.0
IDLE_S = 10.0
MOST_AT_ONCE = 256
ECHO = struct.Struct(">dd")
"""When the request arrived and the answer left, by this host's clock."""


def listen(port: int, *, loopback: bool = False) -> socket.socket:
    """A listening socket on every address, for both IP versions if the host has both. Raises ``OSError``."""
    if loopback:
        return _listen("127.0.0.1", port, socket.AF_INET)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return _listen("::", port, socket.AF_INET6)
    return _listen("", port, socket.AF_INET)


def _listen(address: str, port: int, family: socket.AddressFamily) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((address, port))
        made.listen(MOST_AT_ONCE)
    except OSError:
        made.close()
        raise
    return made


class Answers:
    """Listens until closed. Sends ``who`` to every caller, so the caller knows which host it reached."""

    def __init__(self, token: bytes, who: str) -> None:
        self._token = token
        self._who = who
        self._listening: dict[int, socket.socket] = {}
        self._talking: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def open(self, port: int) -> int:
        """Listen on ``port`` (0: any free one). Returns the port. Raises ``OSError``."""
        made = listen(port)
        number = int(made.getsockname()[1])
        self._listening[number] = made
        threading.Thread(target=self._accept, args=(made,), daemon=True).start()
        return number

    def open_of_the_job(self, ports: list[int]) -> dict[int, str]:
        """Listen on these ports where possible. Returns for each: ``listening``, ``held`` or the kernel's message."""
        told = {}
        for port in ports:
            try:
                self.open(port)
                told[port] = "listening"
            except OSError as error:
                told[port] = "held" if error.errno == errno.EADDRINUSE else error.strerror or "cannot be opened"
            except OverflowError:
                told[port] = "no port"
        return told

    def close(self) -> None:
        """Close every port and connection."""
        with self._lock:
            self._closed = True
            sockets = [*self._listening.values(), *self._talking]
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with self._lock:
                if self._closed or len(self._talking) >= MOST_AT_ONCE:
                    connection.close()
                    continue
                self._talking.add(connection)
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            channel = answer(connection, self._token)
            channel.send({"who": self._who})
            while True:
                self._do(channel, channel.receive(IDLE_S))
        except (OSError, ValueError, TypeError, KeyError):
            pass  # the caller notices and reports it
        finally:
            connection.close()
            with self._lock:
                self._talking.discard(connection)

    def _do(self, channel: Channel, asked: dict[str, Any]) -> None:
        connection = channel.socket
        channel.send({"ready": True})  # bytes that come earlier would be taken for a message
        connection.settimeout(IDLE_S)
        if "echoes" in asked:
            for _ in range(min(int(asked["echoes"]), MOST_ECHOES)):
                _read(connection, 1)
                came = time.time()
                connection.sendall(ECHO.pack(came, time.time()))
        elif "packet" in asked:
            _read(connection, min(int(asked["packet"]), LARGEST_PACKET))
            connection.sendall(b"!")
        elif "bulk_s" in asked:
            channel.send(_count(connection, min(float(asked["bulk_s"]), LONGEST_BULK_S)))
            # closing now, with bytes still unread, would reset the connection before the count is read at the other end
            connection.settimeout(IDLE_S)
            while connection.recv(1 << 20):
                pass


def _read(connection: socket.socket, size: int) -> None:
    while size:
        data = connection.recv(min(size, 65536))
        if not data:
            raise ConnectionResetError
        size -= len(data)


def _count(connection: socket.socket, seconds: float) -> dict[str, Any]:
    """How many bytes arrived within this many seconds after the first piece."""
    buffer = bytearray(1 << 20)
    connection.recv_into(buffer)
    waited = waited_for_processor()
    began = last = time.perf_counter()
    total = 0
    while (left := began + seconds - time.perf_counter()) > 0:
        connection.settimeout(max(left, 0.001))
        try:
            size = connection.recv_into(buffer)
        except TimeoutError:
            break
        if not size:
            break
        total += size
        last = time.perf_counter()
    # without the final pause a fast link that was stopped early would look slow; with it, a slow one fast
    took = (time.perf_counter() if total < 65536 else last) - began
    return {"bytes": total, "seconds": max(took, 1e-6), "waited": waited_for_processor() - waited}
