# SPDX-License-Identifier: Apache-2.0
"""Black boxes that nobody took out of this host's memory: their processes are gone, and so is who watched them.

A supervisor or a companion keeps the boxes of its ranks. Where it was killed too, or there was none, whoever comes next
does it: what the run's folder links to becomes a file there, and what no folder links to any more is removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Any

from keepstep.base.proc_stat import read_stat
from keepstep.signals import blackbox
from keepstep.signals.box_files import device_of, keep, open_box, own_memory, pid_space

MOST = 4096
"""Looked at in one go."""


def sweep() -> int:
    """Free the memory of boxes whose processes are gone. Returns how many; those of living processes stay."""
    freed = 0
    with contextlib.suppress(OSError):
        for path in sorted(own_memory().glob("*.box"))[:MOST]:
            with contextlib.suppress(OSError, blackbox.NotABox):
                freed += _free(path)
    return freed


def _free(path: Path) -> bool:
    with open_box(path) as stream:
        about = os.fstat(stream.fileno())
        who = blackbox.identity(stream.read(blackbox.HEADER_SIZE))
    link = who.get("link")
    if about.st_uid != os.geteuid() or not isinstance(link, str) or not _is_gone(who):
        return False
    place = Path(link)
    if place.is_symlink() and os.readlink(place) == str(path):
        keep(place)
    elif place.is_absolute() and _device_of(place) == who.get("link_on"):  # not a file system that is away for now
        path.unlink(missing_ok=True)
    return not path.exists()


def _device_of(place: Path) -> str | None:
    """On which file system the nearest folder above is that still exists."""
    there = next((above for above in place.parents if above.is_dir()), None)
    return device_of(there) if there is not None else None


def _is_gone(who: dict[str, Any]) -> bool:
    """Whether the process that wrote it has ended, as far as this process can see it at all: see ``pid_space``."""
    pid, began = who.get("pid"), who.get("started")
    if not pid or who.get("host") != socket.gethostname()[:120] or who.get("pid_space") != pid_space():
        return False
    found = read_stat(pid)
    return found is None or (began is not None and found.started != began)
