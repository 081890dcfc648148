# SPDX-License-Identifier: Apache-2.0
"""Find which of many literals stand where in a large buffer: the fast first pass over logs.

One Hyperscan database over all literals where that library is there; else one alternation
of Python's ``re``: the same answers, slower.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

hyperscan: Any
try:
    import hyperscan
except ImportError:  # no wheel for this platform
    hyperscan = None

HEAD = 4
"""No literal is shorter than this."""

Anchor = tuple[str, bool]
"""The literal, and whether upper and lower case are the same."""


class Finder(Protocol):
    """``find`` gives (index of the anchor, end offset) in order of the ends."""

    def find(self, buffer: bytes) -> list[tuple[int, int]]: ...


class Keeper(Protocol):
    """Keeps what took long to make, by name and key, from one start to the next."""

    def get(self, name: str, key: str) -> bytes | None: ...

    def put(self, name: str, key: str, body: bytes) -> None: ...


def finder(anchors: Sequence[Anchor], kept: Keeper | None = None) -> Finder:
    """The fastest finder that this machine has."""
    return _Hyperscan(anchors, kept) if hyperscan is not None else _Regex(anchors)


def accelerated() -> bool:
    """Whether the fast library is there."""
    return hyperscan is not None


class _Hyperscan:
    def __init__(self, anchors: Sequence[Anchor], kept: Keeper | None = None) -> None:
        self._database = _kept_database("literals", anchors, kept) if kept else _compiled(anchors)
        self._scratch: Any = hyperscan.Scratch(self._database)

    def find(self, buffer: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        add = hits.append

        def on_match(index: int, start: int, end: int, flags: int, context: object) -> None:
            add((index, end))

        self._database.scan(buffer, match_event_handler=on_match, scratch=self._scratch)
        hits.sort(key=lambda hit: hit[1])
        return hits


def _compiled(anchors: Sequence[Anchor]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[literal.encode() for literal, _ in anchors],
        ids=list(range(len(anchors))),
        elements=len(anchors),
        flags=[hyperscan.HS_FLAG_CASELESS if fold else 0 for _, fold in anchors],
        literal=True,
    )
    return database


def _kept_database(name: str, anchors: Sequence[Anchor], kept: Keeper) -> Any:
    """The database of an earlier start, if it was made of the same literals, by the same library, on such a processor."""
    here = _compiled([("any literal", False)]).info().decode()
    key = hashlib.sha256(f"{hyperscan.__version__} {here} {list(anchors)}".encode()).hexdigest()
    body = kept.get(name, key)
    if body is not None:
        try:
            return hyperscan.loadb(body, hyperscan.HS_MODE_BLOCK)
        except hyperscan.HyperscanError:
            pass
    database = _compiled(anchors)
    kept.put(name, key, hyperscan.dumpb(database))
    return database


class _Regex:
    """One search for the first bytes of any literal; there, the literals that begin so are asked."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._by_head: dict[bytes, list[tuple[int, bytes, bool]]] = {}
        for index, (literal, fold) in enumerate(anchors):
            whole = literal.encode()
            head = whole[:HEAD].lower()
            self._by_head.setdefault(head, []).append((index, whole.lower() if fold else whole, fold))
        self._heads = re.compile(b"(?=(" + _alternatives(sorted(self._by_head)) + b"))", re.I) if anchors else None

    def find(self, buffer: bytes) -> list[tuple[int, int]]:
        if self._heads is None:
            return []
        folded = buffer.lower()
        hits: list[tuple[int, int]] = []
        for match in self._heads.finditer(folded):
            start = match.start()
            for index, literal, fold in self._by_head[match[1]]:
                if (folded if fold else buffer).startswith(literal, start):
                    hits.append((index, start + len(literal)))
        hits.sort(key=lambda hit: hit[1])
        return hits


def _alternatives(words: list[bytes]) -> bytes:
    """Words of one length as a pattern, common beginnings taken out: Python tries alternatives one by one."""
    by_first: dict[int, list[bytes]] = {}
    for word in words:
        by_first.setdefault(word[0], []).append(word[1:])
    parts = [re.escape(bytes([first])) + (_alternatives(rests) if rests[0] else b"") for first, rests in by_first.items()]
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"
