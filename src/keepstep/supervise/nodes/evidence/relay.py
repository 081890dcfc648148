# SPDX-License-Identifier: Apache-2.0
"""What guards tell each other, carried between nodes: each node has a folder of keys, as `keepstep.guard.exchange`.

A key belongs to the rank that puts it. Contracts are put once; messages on a topic may be replaced by the same rank.
Who reads a key decides how far it travels: most are read by rank 0 alone, so traffic grows with the number of ranks
and not with its square.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from keepstep.base.safe_files import open_regular, write_whole
from keepstep.guard.exchange import LONGEST
from keepstep.supervise.nodes.messages import BadMessage

AT_ONCE = 1 << 20
"""Bytes of all keys that one call hands out; the rest waits for the next."""
MOST_KEYS = 200_000
LONGEST_NAME = 240
"""In bytes: a file's name, with the suffix it has while it is written."""
SETTLES_S = 0.05
"""A folder that changed more recently may change again without a new time."""
_NAME = re.compile(r"keepstep\+\d{1,9}\+[^/\x00-\x1f\x7f]+")
_KEY = re.compile(r"keepstep\+\d+\+(?P<what>.+)\+(?P<who>verdict|r\d+)", re.DOTALL)
_CONTRACT = re.compile(r"(?P<subject>.+)\+\d+", re.DOTALL)
_OF_SOME_RANKS = re.compile(r" of ranks \d")
_FOR_RANK_0 = frozenset(
    {
        "pace",
        "exchanges nothing",
        "left",
        "collective",
        "together",
        "should_stop",
        "on_preemption",
        "should_save",
        "pause",
    }
)
"""Topics that only rank 0 hears; what rank 0 itself says about them goes to all."""

Ident = tuple[int, int]


def audience(key: str) -> Literal["first", "all"]:
    """Who reads it: ``first`` if only rank 0 does. What is not known goes to all."""
    found = _KEY.fullmatch(key)
    if found is None or found["who"] in ("verdict", "r0"):
        return "all"
    if found["what"] in _FOR_RANK_0:
        return "first"  # of the other topics, "at program", "not finite" and "collective in groups" all ranks hear
    contract = _CONTRACT.fullmatch(found["what"])
    return "first" if contract is not None and not _OF_SOME_RANKS.search(contract["subject"]) else "all"


class Relay:
    """One node's folder, in one attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settled: int | None = None
        """The folder's time of change when all of it had been seen."""
        self._told: dict[str, Ident] = {}
        self._taken: dict[str, Ident] = {}

    def new(self) -> tuple[tuple[str, str], ...]:
        """What this node's ranks have put or replaced since the last call. Costs one ``stat`` if that is nothing."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
            if changed == self._settled:
                return ()
            found, rest = self._scan()
        except OSError:
            return ()
        quiet_s = time.time() - changed / 1e9
        self._settled = changed if not rest and quiet_s > SETTLES_S else None
        return found

    def again(self) -> None:
        """Hand out everything once more: another agent leads, or forgot."""
        self._told.clear()
        self._settled = None

    def take(self, keys: Iterable[tuple[str, str]]) -> None:
        """Put what ranks of other nodes say. A key of this node's own ranks stays. Raises :class:`BadMessage`."""
        for name, value in keys:
            data = value.encode("utf-8", "replace")
            if not is_key(name) or len(data) > LONGEST:
                raise BadMessage(f"no key of a guard: {name[:80]!r}")
            if len(self._taken) >= MOST_KEYS and name not in self._taken:
                raise BadMessage(f"more than {MOST_KEYS:,} keys")
            path = self._folder / name
            with contextlib.suppress(OSError):  # a full disk: the guards go on without an answer
                if name not in self._taken and os.path.lexists(path):
                    continue
                write_whole(path, data)
                self._taken[name] = _ident(path.lstat())

    def _scan(self) -> tuple[tuple[tuple[str, str], ...], bool]:
        """New keys with their values, and whether there are more."""
        found: list[tuple[str, str]] = []
        size = 0
        with os.scandir(self._folder) as listed:
            for entry in listed:
                if not is_key(entry.name):
                    continue
                with contextlib.suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    ident = _ident(info)
                    if ident in (self._told.get(entry.name), self._taken.get(entry.name)):
                        continue
                    if size + info.st_size > AT_ONCE and found:
                        return tuple(found), True
                    if stat.S_ISREG(info.st_mode) and info.st_size <= LONGEST:
                        with open_regular(entry.path, follow=False) as stream:
                            value = stream.read(LONGEST).decode("utf-8", "replace")
                        found.append((entry.name, value))
                        size += info.st_size
                    self._told[entry.name] = ident
        return tuple(found), False


def is_key(name: str) -> bool:
    """Whether a guard may have given a file this name."""
    return _NAME.fullmatch(name) is not None and len(name.encode("utf-8", "replace")) <= LONGEST_NAME


def _ident(info: os.stat_result) -> Ident:
    """Tells a file from the one that replaces it: each is written anew."""
    return info.st_mtime_ns, info.st_ino
