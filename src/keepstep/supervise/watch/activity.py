# SPDX-License-Identifier: Apache-2.0
"""Whether ranks use the network or a GPU, which the kernel's counts of processor time and file access do not show.

Asked only while nothing moves. Where it cannot be seen (another network namespace, no NVML), it is no sign of work.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from keepstep.base.proc_stat import family, with_descendants
from keepstep.supervise.watch.children import Children

WORKS_BYTES = 16 << 10
"""Per second over TCP: heartbeats of coordination services are far less."""
LEAST_S = 1.0
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
REQUEST, DUMP, DONE, ERROR = 1, 0x300, 3, 2
INFO = 2
"""INET_DIAG_INFO: struct tcp_info."""
ACKED, RECEIVED = 120, 128
"""Places of tcpi_bytes_acked and tcpi_bytes_received in it."""
MESSAGE_SIZE = 72


class Activity:
    """``moved`` now and then: which of these processes (with all below them) have worked since the last time."""

    def __init__(self) -> None:
        self.at = 0.0
        """When it was last asked."""
        self._bytes: dict[int, dict[int, int]] = {}
        self._gpus: _Gpus | None = None
        self.children = Children()

    def forget(self) -> None:
        self.at = 0.0
        self._bytes.clear()
        self.children.forget()

    def moved(self, pids: Collection[int], now: float, since: Mapping[int, float]) -> set[int]:
        """Empty on the first call, and if called more than once per second. ``since``: each one's last progress."""
        passed = now - self.at
        if passed < LEAST_S:
            return set()
        self.at = now
        listed = with_descendants(pids)
        trees = {pid: family(listed, [pid]) or {pid} for pid in pids}
        self.children.see(trees, listed, now, passed, since)
        counts = tcp_bytes()
        before, self._bytes = self._bytes, {pid: _of(tree, counts) for pid, tree in trees.items()}
        found = {pid for pid in pids if pid in before and _grown(before[pid], self._bytes[pid]) > WORKS_BYTES * passed}
        if self._gpus is None:
            self._gpus = _Gpus()
        busy = self._gpus.busy()
        return found | {pid for pid, tree in trees.items() if tree & busy}


def _of(tree: Collection[int], counts: dict[int, int]) -> dict[int, int]:
    """The bytes of each TCP connection that these processes hold."""
    inodes: set[int] = set()
    for pid in tree if counts else ():
        with contextlib.suppress(OSError):
            for handle in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError, ValueError):
                    target = os.readlink(handle.path)
                    if target.startswith("socket:["):
                        inodes.add(int(target[8:-1]))
    return {inode: counts[inode] for inode in inodes if inode in counts}


def _grown(before: dict[int, int], now: dict[int, int]) -> int:
    return sum(count - before.get(inode, 0) for inode, count in now.items())


def tcp_bytes() -> dict[int, int]:
    """Bytes sent and received so far over each TCP connection of this network namespace, by socket number."""
    found: dict[int, int] = {}
    with contextlib.suppress(OSError, struct.error, AttributeError):
        for kind in (socket.AF_INET, socket.AF_INET6):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as netlink:
                netlink.settimeout(1.0)
                asked = struct.pack("=BBBxI48x", kind, socket.IPPROTO_TCP, 1 << (INFO - 1), 0xFFFFFFFF)
                head = struct.pack("=IHHII", 16 + len(asked), SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, 1, 0)
                netlink.send(head + asked)
                found.update(_answers(netlink))
    return found


def _answers(netlink: socket.socket) -> Iterator[tuple[int, int]]:
    while True:
        data = netlink.recv(1 << 16)
        place = 0
        while place + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, place)
            if kind in (DONE, ERROR) or length < 16:
                return
            body = data[place + 16 : place + length]
            (inode,) = struct.unpack_from("=I", body, MESSAGE_SIZE - 4)
            yield inode, _bytes_in(body)
            place += (length + 3) & ~3


def _bytes_in(body: bytes) -> int:
    place = MESSAGE_SIZE
    while place + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, place)
        if kind == INFO and length >= 4 + RECEIVED + 8:
            acked, received = (struct.unpack_from("=Q", body, place + 4 + where)[0] for where in (ACKED, RECEIVED))
            return int(acked + received)
        place += max(4, (length + 3) & ~3)
    return 0


class _Gpus:
    """Which processes computed on an NVIDIA GPU since it was last asked."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._since = int(time.time() * 1e6)
        with contextlib.suppress(Exception):  # no driver, no library, a virtual device that tells nothing
            import pynvml

            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            self._nvml = pynvml

    def busy(self) -> set[int]:
        since, self._since = self._since, int(time.time() * 1e6)
        found: set[int] = set()
        for handle in self._handles:
            with contextlib.suppress(Exception):  # none has computed, says NVML by an error
                found.update(
                    each.pid for each in self._nvml.nvmlDeviceGetProcessUtilization(handle, since) if each.smUtil > 0
                )
        return found
