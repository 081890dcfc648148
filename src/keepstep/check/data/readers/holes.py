# SPDX-License-Identifier: Apache-2.0
"""Holes: parts of a file that nobody wrote. They read as zeros, take no room on disk, and may be terabytes long."""

from __future__ import annotations

import contextlib
import os

from keepstep.sources.files.holes import data_in, stored

SMALLEST = 1 << 20
"""A smaller hole is read like the rest."""
MOST = 1 << 16
"""Parts that are looked for; what follows counts as written."""


def holes_of(handle: int) -> list[tuple[int, int]]:
    """Where each hole begins and ends. None where the file system does not tell."""
    info = os.fstat(handle)
    found: list[tuple[int, int]] = []
    if stored(info) >= info.st_size:
        return found
    with contextlib.suppress(OSError):  # what cannot be sought in has none
        before, at = os.lseek(handle, 0, os.SEEK_CUR), 0
        for number, (begin, end) in enumerate(data_in(handle, 0, info.st_size)):
            if begin - at >= SMALLEST:
                found.append((at, begin))
            at = end if number < MOST else info.st_size
            if number >= MOST:
                break
        if info.st_size - at >= SMALLEST:
            found.append((at, info.st_size))
        os.lseek(handle, before, os.SEEK_SET)
    return found
