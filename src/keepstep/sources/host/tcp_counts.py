# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts of each TCP connection of this network namespace, by the number of its socket."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
REQUEST, DUMP, DONE, ERROR = 1, 0x300, 3, 2
INFO = 2
"""INET_DIAG_INFO: struct tcp_info."""
MESSAGE_SIZE = 72
"""Of struct inet_diag_msg, which the information follows."""
RTT, ACKED, RECEIVED, NOT_SENT, BUSY, WINDOW = 68, 120, 128, 144, 168, 176
"""Places of tcpi_rtt, bytes_acked, bytes_received, notsent_bytes, busy_time and rwnd_limited in struct tcp_info."""


@dataclass(frozen=True, slots=True)
class TcpCounts:
    """Of one connection, since it was made."""

    here: str
    peer: str
    acked: int = 0
    """Bytes that the other side has confirmed."""
    received: int = 0
    not_sent: int = 0
    """Bytes that a program has written and that wait here, now."""
    rtt_s: float = 0.0
    busy_s: float = 0.0
    """How long there was something on its way, or waiting for it."""
    full_s: float = 0.0
    """For how much of that the other side had no room: its program did not read."""


def tcp_counts() -> dict[int, TcpCounts]:
    """Of all connections. Empty where the kernel does not tell."""
    found: dict[int, TcpCounts] = {}
    with contextlib.suppress(OSError, struct.error, AttributeError):
        for kind in (socket.AF_INET, socket.AF_INET6):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as netlink:
                netlink.settimeout(1.0)
                asked = struct.pack("=BBBxI48x", kind, socket.IPPROTO_TCP, 1 << (INFO - 1), 0xFFFFFFFF)
                head = struct.pack("=IHHII", 16 + len(asked), SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, 1, 0)
                netlink.send(head + asked)
                found.update(_answers(netlink))
    return found


def sockets_of(pids: Collection[int]) -> set[int]:
    """The numbers of the sockets that these processes hold."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for handle in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError, ValueError):
                    target = os.readlink(handle.path)
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
    return found


def _answers(netlink: socket.socket) -> Iterator[tuple[int, TcpCounts]]:
    while True:
        data = netlink.recv(1 << 16)
        place = 0
        while place + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, place)
            if kind in (DONE, ERROR) or length < 16:
                return
            body = data[place + 16 : place + length]
            (inode,) = struct.unpack_from("=I", body, MESSAGE_SIZE - 4)
            yield inode, _counts(body)
            place += (length + 3) & ~3


def _counts(body: bytes) -> TcpCounts:
    kind = socket.AF_INET6 if body[0] == socket.AF_INET6 else socket.AF_INET
    size = 16 if kind == socket.AF_INET6 else 4
    here, peer = (socket.inet_ntop(kind, body[at : at + size]) for at in (8, 24))
    place = MESSAGE_SIZE
    while place + 4 <= len(body):
        length, what = struct.unpack_from("=HH", body, place)
        if what == INFO and length >= 4 + RECEIVED + 8:
            told = body[place + 4 : place + length].ljust(WINDOW + 8, b"\0")  # older kernels tell less
            (rtt_us,), (not_sent,) = struct.unpack_from("=I", told, RTT), struct.unpack_from("=I", told, NOT_SENT)
            acked, received, busy_us, full_us = (
                struct.unpack_from("=Q", told, where)[0] for where in (ACKED, RECEIVED, BUSY, WINDOW)
            )
            return TcpCounts(here, peer, acked, received, not_sent, rtt_us / 1e6, busy_us / 1e6, full_us / 1e6)
        place += max(4, (length + 3) & ~3)
    return TcpCounts(here, peer)
