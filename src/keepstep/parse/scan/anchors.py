# SPDX-License-Identifier: Apache-2.0
"""Finds where any of many literals occur in a large buffer: the fast first pass over logs.

A small log is searched in Python: making Hyperscan's database takes longer than reading it. For a larger one there is a
database of all literals and, once there is much to read, one of fewer words before it (``coarse``). Without Hyperscan
everything is searched in Python: the same answers, more slowly.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol

from keepstep.parse.scan.coarse import WAY, LiteralGroup, Word, choose, fit
from keepstep.parse.scan.lines.usual_lines import LINES

hyperscan: Any
try:
    import hyperscan
except ImportError:  # no wheel for this platform
    hyperscan = None

HEAD = 4
"""No literal is shorter than this."""
START = 8
"""So many bytes tell most literals apart."""
FEW = 64 << 10
"""Up to so much is searched in Python, even if an earlier start has kept a database."""
MANY = 512 << 10
"""From this size on, a database is worth making."""
LARGE = 8 << 20
"""From this size on, the coarse words are worth preparing."""
SMALL = 256
"""Below this size the coarse words are not used. Above, they are faster: their tables fit the processor's cache."""
DENSE = 96
"""Marks in one buffer: with more of them all of it is searched for the literals."""
PAUSE = 14
"""How many buffers (every other one is a seam) are searched without the coarse words after these did not help."""
MOST_IDLE = 8_000
"""Marks without a literal: their cost is about that of another database."""
NOISY = 100
"""A group with more than this part of them is looked for by its literals."""
SAMPLE = 32 << 10
MOST_TIMES = 6

Anchor = tuple[str, bool]
"""The literal, and whether upper and lower case are the same."""
Hits = list[tuple[int, int]]
"""(index of the anchor, end offset), in order of the ends, then of the anchors."""
_END_THEN_INDEX = itemgetter(1, 0)


def in_order(hits: Hits) -> Hits:
    hits.sort(key=_END_THEN_INDEX)
    return hits


class AnchorFinder(Protocol):
    """Finds anchors in bytes."""

    def find(self, buffer: bytes, but: Collection[int] = ()) -> Hits:
        """All hits, ``but`` those of some anchors."""
        ...

    def expect(self, size: int) -> None:
        """How many bytes will be searched: slow preparation may be worth it."""
        ...


class Keeper(Protocol):
    """Keeps what took long to make, by name and key, from one start to the next."""

    def get(self, name: str, key: str) -> bytes | None: ...

    def put(self, name: str, key: str, body: bytes) -> None: ...


def finder(anchors: Sequence[Anchor], kept: Keeper | None = None) -> AnchorFinder:
    """The fastest finder on this machine."""
    return _Hyperscan(anchors, kept) if hyperscan is not None else _Plain(anchors)


def accelerated() -> bool:
    """Whether the fast library is installed."""
    return hyperscan is not None


class _Hyperscan:
    """Where there is much to read, searches for a few coarse words first, and for the literals only around them."""

    def __init__(self, anchors: Sequence[Anchor], kept: Keeper | None = None) -> None:
        self._literals: list[Word] = [(literal.encode(), fold) for literal, fold in anchors]
        self._kept = kept
        self._plain = _Plain(anchors)
        self._database: _Database | None = None
        self._searched = 0
        self._asked = False
        self._reach = max((len(literal) for literal, _ in self._literals), default=0)
        self._coarse: _Coarse | None = None
        self._pause = 0

    def expect(self, size: int) -> None:
        self._prepare(size)
        if size >= LARGE and self._coarse is None and self._literals:
            self._coarse = _Coarse(self._literals, self._kept)

    def _prepare(self, size: int) -> None:
        """A database, if one is there or worth making for what was and will be searched."""
        if self._database is not None or size < FEW or not self._literals:
            return
        if size >= MANY:
            database = _kept_database("literals", self._literals, self._kept, lambda: _compiled(self._literals))
        elif not self._asked:
            database = _kept_database("literals", self._literals, self._kept, lambda: None)
            self._asked = True
        else:
            return
        self._database = _Database(database) if database is not None else None

    def _find_all(self, buffer: bytes, but: Collection[int] = ()) -> Hits:
        if self._database is None:
            self._searched += len(buffer)
            self._prepare(self._searched)
        return (self._database or self._plain).find(buffer, but)

    def find(self, buffer: bytes, but: Collection[int] = ()) -> Hits:
        coarse = self._coarse
        if coarse is None or coarse.given_up or len(buffer) < SMALL:
            return self._find_all(buffer, but)
        if self._pause:
            self._pause -= 1
            return self._find_all(buffer, but)
        marks = coarse.find(buffer)
        if len(marks) <= DENSE:
            return self._around(marks, coarse, buffer, but)
        hits = self._find_all(buffer)
        if len(hits) < len(marks) // 4:
            coarse.blame(group for group, _ in marks)
        else:
            self._pause = PAUSE
        return [hit for hit in hits if hit[0] not in but]

    def _around(self, marks: Hits, coarse: _Coarse, buffer: bytes, but: Collection[int]) -> Hits:
        """The hits near the marks: whatever holds a coarse word is not further from it than the longest literal."""
        hits: Hits = []
        first = 0
        for number, (_, end) in enumerate(marks, 1):
            if number < len(marks) and marks[number][1] - end <= 2 * self._reach:
                continue
            low = max(0, marks[first][1] - self._reach)
            found = self._find_all(buffer[low : end + self._reach])
            if not found:
                coarse.blame(group for group, _ in marks[first:number])
            hits += [(index, low + place) for index, place in found if index not in but]
            first = number
        return hits


class _Coarse:
    """The coarse words: those that are rare in usual logs; where they are not, fitted to the log that is read."""

    def __init__(self, literals: Sequence[Word], kept: Keeper | None) -> None:
        self._literals = literals
        self._kept = kept
        self._plain: set[int] = set()
        self._idle: Counter[int] = Counter()
        self._database: _Database | None = _Database(
            _kept_database("coarse", (WAY, LINES, literals), kept, lambda: self._fitted(LINES))
        )
        self._times = 0
        self.given_up = False

    def find(self, buffer: bytes) -> Hits:
        """The marks, as hits of groups."""
        if self._database is None:
            self._database = _Database(self._fitted(buffer[:SAMPLE]))
        return self._database.find(buffer)

    def _fitted(self, log: bytes) -> Any:
        numbers, words = zip(*fit(_groups(self._literals, self._kept), self._literals, log, self._plain), strict=True)
        return _compiled(words, numbers)

    def blame(self, groups: Iterable[int]) -> None:
        """These marked a place where no literal was."""
        self._idle.update(groups)
        total = self._idle.total()
        if total < MOST_IDLE:
            return
        noisy = {group for group, times in self._idle.items() if times * NOISY >= total}
        self.given_up = self._times >= MOST_TIMES or noisy <= self._plain
        self._plain |= noisy
        self._idle.clear()
        self._database = None
        self._times += 1


class _Database:
    def __init__(self, database: Any) -> None:
        self._database = database
        self._scratch: Any = hyperscan.Scratch(database)

    def find(self, buffer: bytes, but: Collection[int] = ()) -> Hits:
        hits: Hits = []
        add = hits.append

        def on_match(index: int, start: int, end: int, flags: int, context: object) -> None:
            if index not in but:
                add((index, end))

        self._database.scan(buffer, match_event_handler=on_match, scratch=self._scratch)
        return in_order(hits)


def _compiled(words: Sequence[Word], numbers: Sequence[int] | None = None) -> Any:
    """``numbers``: what the words are called in hits, if not by their place."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[word for word, _ in words],
        ids=list(numbers or range(len(words))),
        elements=len(words),
        flags=[hyperscan.HS_FLAG_CASELESS if fold else 0 for _, fold in words],
        literal=True,
    )
    return database


def _kept_database(name: str, of: object, kept: Keeper | None, make: Callable[[], Any]) -> Any:
    """The database of an earlier start, if it was made of the same words, by the same library, on such a processor.

    If there is none, ``make`` may make it.
    """
    if kept is None:
        return make()
    here = _compiled([(b"any literal", False)]).info().decode()
    key = hashlib.sha256(f"{hyperscan.__version__} {here} {of}".encode()).hexdigest()
    body = kept.get(name, key)
    if body is not None:
        try:
            return hyperscan.loadb(body, hyperscan.HS_MODE_BLOCK)
        except hyperscan.HyperscanError:
            pass
    database = make()
    if database is not None:
        kept.put(name, key, hyperscan.dumpb(database))
    return database


def _groups(literals: Sequence[Word], kept: Keeper | None) -> list[LiteralGroup]:
    """Those that an earlier start chose for the same literals, if there was one."""
    if kept is None:
        return choose(literals)
    key = hashlib.sha256(f"{WAY} {LINES!r} {list(literals)}".encode()).hexdigest()
    body = kept.get("groups", key)
    if body is not None:
        return [
            LiteralGroup(numbers, [word.encode("latin-1") for word in words], fold)
            for numbers, words, fold in json.loads(body)
        ]
    groups = choose(literals)
    plain = [(numbers, [word.decode("latin-1") for word in words], fold) for numbers, words, fold in groups]
    kept.put("groups", key, json.dumps(plain).encode())
    return groups


class _Plain:
    """At every place where a literal may begin, those that begin so are asked."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._anchors = anchors

    @cached_property
    def _by_start(self) -> dict[bytes, list[tuple[int, bytes, bool]]]:
        """By the first bytes, in lower case."""
        found: defaultdict[bytes, list[tuple[int, bytes, bool]]] = defaultdict(list)
        for index, (literal, fold) in enumerate(self._anchors):
            whole = literal.encode()
            folded = whole.lower()
            found[folded[:START]].append((index, folded if fold else whole, fold))
        return dict(found)

    @cached_property
    def _heads(self) -> dict[bytes, list[int]]:
        """How long the starts are that begin with these bytes."""
        found: defaultdict[bytes, set[int]] = defaultdict(set)
        for start in self._by_start:
            found[start[:HEAD]].add(len(start))
        return {head: sorted(lengths) for head, lengths in found.items()}

    def expect(self, size: int) -> None:
        pass

    def find(self, buffer: bytes, but: Collection[int] = ()) -> Hits:
        heads, by_start = self._heads, self._by_start
        folded = buffer.lower()
        hits: Hits = []
        for place in [n for n in range(len(folded) - HEAD + 1) if folded[n : n + HEAD] in heads]:
            for length in heads[folded[place : place + HEAD]]:
                for index, literal, fold in by_start.get(folded[place : place + length], ()):
                    if (folded if fold else buffer).startswith(literal, place) and index not in but:
                        hits.append((index, place + len(literal)))
        return in_order(hits)
