# SPDX-License-Identifier: Apache-2.0
"""File systems that do not answer: which one a path is on, found out without touching it, and when to try no more."""

from __future__ import annotations

import os
import re

from keepstep.check.data.readers.source import is_remote

MOST_SILENT = 3
"""So many files of one file system in a row without an answer, and the rest of it is not tried."""
_TABLE = "/proc/self/mountinfo"


def mounts() -> list[str]:
    """Where file systems are mounted, the deepest first; empty where the system does not say."""
    try:
        with open(_TABLE, "rb") as table:
            found = {os.fsdecode(_plain(line.split(b" ", 5)[4])) for line in table}
    except (OSError, IndexError):
        return []
    return sorted(found, key=len, reverse=True)


def _plain(name: bytes) -> bytes:
    r"""A blank is written as ``\040``."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8) & 255]), name)


def mount_of(path: str, known: list[str]) -> str:
    """The mount that a path is on, by its name alone. Of an URL, its host or bucket; without a table, its folder."""
    if is_remote(path):
        return "/".join(path.split("/")[:3])
    whole = os.path.abspath(path)
    return next((each for each in known if is_below(whole, each)), os.path.dirname(whole))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class SilentMount:
    """Counts files without an answer."""

    def __init__(self) -> None:
        self._mounts = mounts()
        self._in_a_row: dict[str, int] = {}

    def answered(self, path: str) -> None:
        """A file was read, so its file system is there."""
        if self._in_a_row:
            self._in_a_row.pop(mount_of(path, self._mounts), None)

    def gave_none(self, path: str) -> None:
        """A file did not answer."""
        mount = mount_of(path, self._mounts)
        self._in_a_row[mount] = self._in_a_row.get(mount, 0) + 1

    def why_not(self, path: str) -> str:
        """Why a file is not worth trying; empty: it is."""
        if not self._in_a_row:
            return ""
        mount = mount_of(path, self._mounts)
        if self._in_a_row.get(mount, 0) < MOST_SILENT:
            return ""
        return f"not tried: {MOST_SILENT} files in a row did not answer on {mount}"
