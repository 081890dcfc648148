# SPDX-License-Identifier: Apache-2.0
"""Find which of many literals stand where in a large buffer: the fast first pass over logs.

One Hyperscan database over all literals where that library is there; else one alternation
of Python's ``re``: the same answers, slower.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

hyperscan: Any
try:
    import hyperscan
except ImportError:  # no wheel for this platform
    hyperscan = None

Anchor = tuple[str, bool]
"""The literal, and whether upper and lower case are the same."""


class Finder(Protocol):
    """``find`` gives (index of the anchor, end offset) in order of the ends."""

    def find(self, buffer: bytes) -> list[tuple[int, int]]: ...


def finder(anchors: Sequence[Anchor]) -> Finder:
    """The fastest finder that this machine has."""
    return _Hyperscan(anchors) if hyperscan is not None else _Regex(anchors)


def accelerated() -> bool:
    """Whether the fast library is there."""
    return hyperscan is not None


class _Hyperscan:
    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        flags = [hyperscan.HS_FLAG_CASELESS if fold else 0 for _, fold in anchors]
        self._database.compile(
            expressions=[literal.encode() for literal, _ in anchors],
            ids=list(range(len(anchors))),
            elements=len(anchors),
            flags=flags,
            literal=True,
        )
        self._scratch: Any = hyperscan.Scratch(self._database)

    def find(self, buffer: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        add = hits.append

        def on_match(index: int, start: int, end: int, flags: int, context: object) -> None:
            add((index, end))

        self._database.scan(buffer, match_event_handler=on_match, scratch=self._scratch)
        hits.sort(key=lambda hit: hit[1])
        return hits


class _Regex:
    """Overlapping literals are found by asking each literal that begins at a hit."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._each = [re.compile(re.escape(literal.encode()), re.I if fold else 0) for literal, fold in anchors]
        exact = [re.escape(literal.encode()) for literal, fold in anchors if not fold]
        folded = [b"(?i:" + re.escape(literal.encode()) + b")" for literal, fold in anchors if fold]
        longest_first = sorted(exact + folded, key=len, reverse=True)
        self._any = re.compile(b"(?=(" + b"|".join(longest_first) + b"))") if anchors else None

    def find(self, buffer: bytes) -> list[tuple[int, int]]:
        if self._any is None:
            return []
        hits: list[tuple[int, int]] = []
        for match in self._any.finditer(buffer):
            start = match.start()
            for index, each in enumerate(self._each):
                found = each.match(buffer, start)
                if found:
                    hits.append((index, found.end()))
        hits.sort(key=lambda hit: hit[1])
        return hits
