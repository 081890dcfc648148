# SPDX-License-Identifier: Apache-2.0
"""Memory and processor time of a process and all below it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from keepstep.base.proc_stat import ProcStat, family

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def of_tree(root: int, listed: Mapping[int, ProcStat]) -> dict[str, Any]:
    """Memory and processor time of a process tree; ``own``: without pages of files and shared memory."""
    tree = family(listed, [root])
    resident = own = 0
    for pid in tree:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as stream:
            _, here, shared = stream.read().split()[:3]
            resident += int(here) * _PAGE
            own += (int(here) - int(shared)) * _PAGE
    return {
        "rss": resident,
        "own": own,
        "cpu_s": round(sum(listed[pid].cpu_s for pid in tree), 2),
        "processes": len(tree),
    }
