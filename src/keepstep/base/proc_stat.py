# SPDX-License-Identifier: Apache-2.0
"""The kernel's list of processes: one of them, all of this host, or those that descend from some.

Standard library only: the reaper, which runs as a script of its own, imports nothing else of ours.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

MOST_THREADS = 40
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""Per second."""


class ProcStat(NamedTuple):
    """One process or thread, as /proc/PID/stat describes it."""

    parent: int
    session: int
    state: str
    """The kernel's letter: R, S, D, T (stopped), t (traced), Z, X."""
    cpu_s: float
    """Of itself and of children that have ended."""
    started: int
    """In ticks since the host booted: tells apart a later process with the same number."""
    wait_status: int | None = None
    """How it ended, as ``os.waitpid`` would say, where its parent has not asked yet and we may know."""

    @property
    def lives(self) -> bool:
        return self.state not in "ZX"

    def began(self) -> float | None:
        """When it was started, by the clock of this host; None if the host does not say how long it has been up."""
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/uptime", "rb") as stream:
            return time.time() - float(stream.read().split()[0]) + self.started / TICKS
        return None


def read_stat(pid: int | str = "self", thread: int | None = None) -> ProcStat | None:
    """One process, or one of its threads; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()  # before it: its name, which may contain anything
        cpu_s = sum(int(fields[n]) for n in (11, 12, 13, 14)) / TICKS
        status = int(fields[49]) if len(fields) > 49 else None
        return ProcStat(int(fields[1]), int(fields[3]), fields[0].decode(), cpu_s, int(fields[19]), status)
    except (OSError, IndexError, ValueError):
        return None


def all_processes() -> dict[int, ProcStat]:
    """All processes of this host that can be seen."""
    found: dict[int, ProcStat] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                entry = read_stat(int(name))
                if entry is not None:
                    found[int(name)] = entry
    return found


def with_descendants(roots: Iterable[int]) -> dict[int, ProcStat]:
    """These processes and their descendants. May list others too: all of the host, where that is cheaper."""
    found: dict[int, ProcStat] = {}
    waiting, threads = list(roots), 0
    while waiting:
        pid = waiting.pop()
        entry = read_stat(pid) if pid not in found else None
        if entry is None:
            continue
        found[pid] = entry
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            threads += len(tasks)
            if threads > MOST_THREADS:  # each thread lists its own children: then the whole table is cheaper
                return all_processes()
            for task in tasks:
                with open(f"/proc/{pid}/task/{task}/children", "rb") as stream:
                    waiting += map(int, stream.read().split())
        except FileNotFoundError:
            if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
                return all_processes()
        except OSError:
            return all_processes()
    return found


def family(listed: Mapping[int, ProcStat], roots: Iterable[int]) -> set[int]:
    """The roots that are listed, and all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, entry in listed.items():
        children.setdefault(entry.parent, []).append(pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in listed]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found
