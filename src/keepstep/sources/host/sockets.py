# SPDX-License-Identifier: Apache-2.0
"""The TCP sockets of a live process, read from /proc in the process's own network namespace."""

from __future__ import annotations

import os
from pathlib import Path

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.network import ConnectionStuck
from keepstep.parse.formats.proc_net_tcp import stuck_connections

MOST_TABLE = 8 << 20
MOST_FILES = 65_536
_SOCKET = lazy_pattern(r"socket:\[(\d+)\]")


def stuck(pid: int) -> list[ConnectionStuck]:
    """The connections of a process that get no answer, the most retried first. Only reads."""
    process = Path("/proc") / str(pid)
    inodes = _sockets(process / "fd")
    found: list[ConnectionStuck] = []
    for table in ("tcp", "tcp6") if inodes else ():
        try:
            with (process / "net" / table).open("rb") as file:
                found += stuck_connections(file.read(MOST_TABLE).decode("ascii", "replace"), inodes)
        except OSError:
            continue
    return sorted(found, key=lambda each: -each.tries)


def _sockets(folder: Path) -> set[int]:
    found: set[int] = set()
    try:
        names = os.listdir(folder)[:MOST_FILES]
    except OSError:
        return found
    for name in names:
        try:
            target = _SOCKET.match(os.readlink(folder / name))
        except OSError:
            continue
        if target:
            found.add(int(target[1]))
    return found
