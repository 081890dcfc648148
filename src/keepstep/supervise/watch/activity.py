# SPDX-License-Identifier: Apache-2.0
"""Whether ranks use the network or a GPU, which the kernel's counts of processor time and file access do not show.

Asked only while nothing moves. Where it cannot be seen (another network namespace, no NVML), it is no sign of work.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from typing import Any

from keepstep.base.proc_stat import family, with_descendants
from keepstep.sources.host.tcp_counts import TcpCounts, sockets_of, tcp_counts
from keepstep.supervise.watch.children import Children

WORKS_BYTES = 16 << 10
"""Per second over TCP: heartbeats of coordination services are far less."""
LEAST_S = 1.0


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
        counts = tcp_counts()
        before, self._bytes = self._bytes, {pid: _of(tree, counts) for pid, tree in trees.items()}
        found = {pid for pid in pids if pid in before and _grown(before[pid], self._bytes[pid]) > WORKS_BYTES * passed}
        if self._gpus is None:
            self._gpus = _Gpus()
        busy = self._gpus.busy()
        return found | {pid for pid, tree in trees.items() if tree & busy}


def _of(tree: Collection[int], counts: Mapping[int, TcpCounts]) -> dict[int, int]:
    """The bytes of each TCP connection that these processes hold."""
    inodes = sockets_of(tree) if counts else set()
    return {inode: counts[inode].acked + counts[inode].received for inode in inodes if inode in counts}


def _grown(before: dict[int, int], now: dict[int, int]) -> int:
    return sum(count - before.get(inode, 0) for inode, count in now.items())


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
