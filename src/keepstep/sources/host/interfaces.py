# SPDX-License-Identifier: Apache-2.0
"""What the kernel says about network interfaces and one TCP connection."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

INTERFACES = Path("/sys/class/net")
MOST_INTERFACES = 64
ERRORS = tuple(
    """
    rx_errors tx_errors rx_crc_errors rx_frame_errors rx_fifo_errors rx_missed_errors tx_carrier_errors
    tx_fifo_errors
    """.split()
)
"""``rx_errors`` and ``tx_errors`` are the sums; the others are kinds of error."""

_SIOCOUTQ = 0x5411


@dataclass(frozen=True)
class Counted:
    """The counters of one interface since it came up."""

    interface: str
    packets: int
    errors: int
    dropped: int
    kinds: dict[str, int]


@dataclass(frozen=True)
class TcpState:
    """What the kernel knows about a connection."""

    segment: int
    """The largest payload it puts into one packet."""
    path_mtu: int
    resent: int
    retries: int
    """How often in a row the same packet was sent again without an answer."""


def counters(root: Path = INTERFACES) -> dict[str, Counted]:
    """The counters of every interface except loopback; none if the kernel does not show them."""
    found = {}
    with contextlib.suppress(OSError):
        for folder in sorted(root.iterdir())[:MOST_INTERFACES]:
            numbers = {
                name: _number(folder / "statistics" / name)
                for name in (*ERRORS, "rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
            }
            if folder.name == "lo" or numbers["rx_packets"] is None:
                continue
            known = {name: value or 0 for name, value in numbers.items()}
            found[folder.name] = Counted(
                interface=folder.name,
                packets=known["rx_packets"] + known["tx_packets"],
                errors=known["rx_errors"] + known["tx_errors"],
                dropped=known["rx_dropped"] + known["tx_dropped"],
                kinds={name: known[name] for name in ERRORS if known[name]},
            )
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def tcp_state(connection: socket.socket) -> TcpState | None:
    """TCP_INFO of Linux; None elsewhere."""
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    except OSError:
        return None
    if len(told) < 104:
        return None
    retries = told[2]
    numbers = struct.unpack("=24I", told[8:104])
    return TcpState(segment=numbers[2], path_mtu=numbers[13], resent=numbers[23], retries=retries)


def unacknowledged(connection: socket.socket, unknown: int = 0) -> int:
    """Bytes that were sent but not yet acknowledged; ``unknown`` if the kernel does not say."""
    with contextlib.suppress(OSError, ValueError):
        told = fcntl.ioctl(connection.fileno(), _SIOCOUTQ, b"\0\0\0\0")
        return int(struct.unpack("=i", told)[0])
    return unknown


def waited_for_processor() -> float:
    """Seconds for which this thread was ready but had no processor; 0 if the kernel does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0
