# SPDX-License-Identifier: Apache-2.0
"""Holes: parts of a file that nobody wrote. They read as zeros, take no room on disk, and may be terabytes long."""

from __future__ import annotations

import contextlib
import os

SMALLEST = 1 << 20
"""A smaller hole is read like the rest."""
MOST = 1 << 16
"""Parts that are looked for; what follows counts as written."""
BLOCK = 512
"""Of ``st_blocks``, whatever the file system's own blocks are."""


def holes_of(handle: int) -> list[tuple[int, int]]:
    """Where each hole begins and ends. None where the file system does not tell."""
    info = os.fstat(handle)
    if info.st_blocks * BLOCK >= info.st_size or not hasattr(os, "SEEK_HOLE"):
        return []
    found, at, before = [], 0, os.lseek(handle, 0, os.SEEK_CUR)
    with contextlib.suppress(OSError):  # what cannot be sought in has none
        for _ in range(MOST):
            begin = os.lseek(handle, at, os.SEEK_HOLE)
            at = _next_data(handle, begin, info.st_size)
            if at - begin >= SMALLEST:
                found.append((begin, at))
            if at >= info.st_size:
                break
    os.lseek(handle, before, os.SEEK_SET)
    return found


def _next_data(handle: int, begin: int, size: int) -> int:
    try:
        return os.lseek(handle, begin, os.SEEK_DATA)
    except OSError:  # nothing was written after it
        return size
