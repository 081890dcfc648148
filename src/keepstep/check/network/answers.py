# SPDX-License-Identifier: Apache-2.0
"""The called end of a link: listens on the job's own ports where they are free, and does what the caller asks.

After the handshake a caller may ask for echoes (small exchanges with this host's clock), for the acknowledgement of one
packet of a given size, and for a count of what arrives in a given time.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from typing import Any

from keepstep.check.meeting.connection import ProvenConnection, ProvenListener
from keepstep.sources.host.interfaces import waited_for_processor
from keepstep.sources.host.ports import listen

MOST_ECHOES = 100
LARGEST_PACKET = 70_000
LONGEST_BULK_S = 5.0
IDLE_S = 10.0
MOST_AT_ONCE = 256
ECHO = struct.Struct(">dd")
"""When the request arrived and the answer left, by this host's clock."""


class Answers:
    """Listens until closed. Sends ``who`` to every caller, so the caller knows which host it reached."""

    def __init__(self, token: bytes, who: str) -> None:
        self._who = who
        self._listener = ProvenListener(token, self._talk, MOST_AT_ONCE)

    def open(self, port: int) -> int:
        """Listen on ``port`` (0: any free one). Returns the port. Raises ``OSError``."""
        made = listen(port)
        self._listener.add(made)
        return int(made.getsockname()[1])

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
        self._listener.close()

    def _talk(self, connection: ProvenConnection, address: str) -> bool:
        connection.send({"who": self._who})
        while True:
            self._do(connection, connection.receive(IDLE_S))

    def _do(self, connection: ProvenConnection, asked: dict[str, Any]) -> None:
        raw = connection.socket
        connection.send({"ready": True})  # bytes that come earlier would be taken for a message
        raw.settimeout(IDLE_S)
        if "echoes" in asked:
            for _ in range(min(int(asked["echoes"]), MOST_ECHOES)):
                read_exactly(raw, 1)
                came = time.time()
                raw.sendall(ECHO.pack(came, time.time()))
        elif "packet" in asked:
            read_exactly(raw, min(int(asked["packet"]), LARGEST_PACKET))
            raw.sendall(b"!")
        elif "bulk_s" in asked:
            connection.send(_count(raw, min(float(asked["bulk_s"]), LONGEST_BULK_S)))
            # closing now, with bytes still unread, would reset the connection before the count is read at the other end
            raw.settimeout(IDLE_S)
            while raw.recv(1 << 20):
                pass


def read_exactly(raw: socket.socket, size: int) -> bytes:
    """So many bytes. Raises ``OSError``: ``TimeoutError``, or ``ConnectionResetError`` if fewer come."""
    found = b""
    while len(found) < size:
        data = raw.recv(size - len(found))
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        found += data
    return found


def _count(raw: socket.socket, seconds: float) -> dict[str, Any]:
    """How many bytes arrived within this many seconds after the first piece."""
    buffer = bytearray(1 << 20)
    raw.recv_into(buffer)
    waited = waited_for_processor()
    began = last = time.perf_counter()
    total = 0
    while (left := began + seconds - time.perf_counter()) > 0:
        raw.settimeout(max(left, 0.001))
        try:
            size = raw.recv_into(buffer)
        except TimeoutError:
            break
        if not size:
            break
        total += size
        last = time.perf_counter()
    # without the final pause a fast link that was stopped early would look slow; with it, a slow one fast
    took = (time.perf_counter() if total < 65536 else last) - began
    return {"bytes": total, "seconds": max(took, 1e-6), "waited": waited_for_processor() - waited}
