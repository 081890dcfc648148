# SPDX-License-Identifier: Apache-2.0
"""Holes in files: parts that were never written, take no room on the disk and read as zeros."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

BLOCK = 512
"""The unit of ``st_blocks``, whatever the file system."""


def stored(info: os.stat_result) -> int:
    """How many bytes it has on the disk; its size where the system does not say."""
    return min(info.st_size, info.st_blocks * BLOCK) if hasattr(info, "st_blocks") else info.st_size


def data_in(handle: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of an open file that were written, as (begin, end). All of it where the system does not say."""
    place = begin
    while place < end:
        try:
            first = os.lseek(handle, place, os.SEEK_DATA)
            last = min(os.lseek(handle, first, os.SEEK_HOLE), end)
        except (OSError, AttributeError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENXIO:  # a hole up to the end
                return
            first, last = place, end
        if first >= end:
            return
        yield first, last
        place = last
