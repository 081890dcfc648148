# SPDX-License-Identifier: Apache-2.0
"""One log, whatever its size, to sightings: facts with their line, writer and time.

Pure: chunks of bytes in, sightings out. Memory is bounded by the chunk size. The fast
pass finds anchors in whole chunks; only lines that hold one are decoded and read exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import itemgetter

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ExceptionRaised
from keepstep.model.facts.rank_places import MemberPlaced
from keepstep.parse.scan.anchors import Hits, in_order
from keepstep.parse.scan.knowledge import Knowledge
from keepstep.parse.scan.lines.block_lines import LONGEST_LINE, BlockLines, bounds, line_begin, line_end
from keepstep.parse.scan.lines.headings import spawned
from keepstep.parse.scan.lines.introduction import Introduction, introduced, introduced_processes
from keepstep.parse.scan.lines.line_count import newlines
from keepstep.parse.scan.lines.line_times import Clock
from keepstep.parse.scan.lines.log_lines import clean, find_headings, head, held, sample
from keepstep.parse.scan.lines.long_lines import LONGEST_BEFORE, NEAR, ends_of, near
from keepstep.parse.scan.lines.not_said import OF_A_REPORT, is_ours, is_source, without_source
from keepstep.parse.scan.lines.prefix import Prefixes
from keepstep.parse.scan.lines.wrapping import Unwrapped
from keepstep.parse.scan.lines.writer import NOBODY, Writer
from keepstep.parse.scan.log_end import TAIL, TAIL_OF_ONE, WHOLE, LogEnd
from keepstep.parse.scan.patience import LogPatience
from keepstep.parse.scan.sighting import QUOTE, Sighting
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.tensorflow.status import as_raised, under_node

PIECE = 256 << 10
"""Searched at once: small enough for the processor's cache, large enough for the longest block."""
LONGEST_ANCHOR = 512
BEHIND = 128 << 10
"""How far above a hit we look for what belongs to it: the beginning of its line, the words before, the time."""
MOST_PER_STREAM = 40
"""How many equal messages of one writer are kept."""
MOST_PER_ANCHOR = 3_000
"""How many lines with one anchor are read; after that, only those in the last part of the log."""
WRAPPED = PIECE
"""Logs up to this size may have been pasted from a terminal, with lines broken at blanks."""
MOST_ABOVE = 200
"""How many lines of all writers are looked at above a line, for what it belongs to."""
LONG = 1 << 10
"""Longer lines are timed between two searches."""
_ANCHOR = itemgetter(0)
OURS = "knowledge/keepstep/"
"""Where the tables of what keepstep itself prints are."""
SOURCE_LINES, RAISE_LINES = "source_lines.toml", "raise_lines.toml"
"""Tables of source that a traceback shows: lines that fail in one way only, and lines that tell what was raised, for
tracebacks whose own last line is missing."""

_LOGGER = lazy_pattern(
    r"Exception ignored in|(?<![A-Za-z_])(?:ERROR|CRITICAL)(?![A-Za-z_])"
    r"|(?<![A-Za-z_])(?:WARNING|WARN|INFO|DEBUG)(?![A-Za-z_]).{0,300}?(?i:exception|error|fail|retry|could not|skip|ignor)"
    r"|\bfailed with: $",
    most=LONGEST_BEFORE,
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the log, where it begins (offset and line), how many lines end in it, and the hits in it."""

    data: bytes
    begin: int
    line: int
    lines: int
    hits: Hits
    tells_of_spawned: bool
    """Whether a parent may print the exception of a child here; then each line is checked for that."""


class LogScan:
    """The scan of one log. ``year`` and ``day`` complete clocks that omit them.

    ``whole``: the largest log that is read for progress from its first line.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        year: int = 1970,
        day: tuple[int, int] | None = None,
        patience: LogPatience | None = None,
        whole: int = WHOLE,
    ) -> None:
        self._know = knowledge
        self.patience = patience or LogPatience()
        self._whole = whole
        self._clock = Clock(year, day)
        self._prefixes = Prefixes(())
        self._seen: Counter[tuple[int, str]] = Counter()
        self._flood: Counter[int] = Counter()
        self._flooded: set[int] = set()
        self._consumed: dict[str, int] = {}
        self._headings: list[tuple[int, Writer]] = []
        self._unwrapped: Unwrapped | None = None
        self._spawns = False
        self._reports = False
        """Whether a report of keepstep is near what is being read."""
        self.lines = 0
        self.bytes = 0
        self._placed: list[Sighting] = []
        self.introduced: Introduction | None = None
        """The rank by which the only writer calls itself in the first lines."""

    @property
    def date_read(self) -> tuple[int | None, tuple[int, int] | None]:
        """The first year and the first day that lines state."""
        return self._clock.year_read, self._clock.day_read

    def scan(self, chunks: Iterable[bytes]) -> Iterator[Sighting]:
        """All sightings, in order. A piece is read together with its neighbours, and only when it holds a hit."""
        before: _Piece | None = None
        here: _Piece | None = None
        for data, last in with_last(pieces(chunks, PIECE)):
            if last:
                here = self._forget_floods(here, before)
            ahead = self._piece(data, here, last)
            if here is not None:
                yield from self._hits(here, before, ahead)
            else:
                yield from self._placed
            before, here = here, ahead
            if self.patience.is_out(self.bytes):
                return
        assert here is not None
        yield from self._hits(here, before, None)
        if self.patience.gave_up_after_s is not None:
            return
        ended = here.line - 1 + here.lines
        self.lines = ended + (1 if here.data and not here.data.endswith(b"\n") else 0)
        enough = len(here.data) > TAIL and here.data.find(b"\n", -TAIL_OF_ONE) >= 0
        around = here.data if before is None or enough else before.data + here.data
        end = LogEnd(self._know, self._clock, self._prefixes, self._heading_at, self._line_shift, self._whole)
        yield from end.read(around, ended, whole=before is None)

    def _piece(self, data: bytes, above: _Piece | None, last: bool) -> _Piece:
        if above is None:
            data = self._begin(data, last)
            begin, line = 0, 1
        else:
            begin = above.begin + len(above.data)
            line = above.line + above.lines
        self.bytes += len(data)
        return self._found(data, begin, line, newlines(data, 0, len(data)), above)

    def _found(self, data: bytes, begin: int, line: int, lines: int, above: _Piece | None) -> _Piece:
        """The piece with the hits that end in it; those of anchors that came too often already are left out."""
        find = self._know.finder.find
        hits = find(data.replace(b"\n", b" ") if self._unwrapped else data, self._flooded)
        if above is not None:
            edge = min(LONGEST_ANCHOR, begin)
            seam = above.data[-LONGEST_ANCHOR:] + data[:LONGEST_ANCHOR]
            across = [(anchor, end - edge) for anchor, end in find(seam, self._flooded) if end > edge]
            if across:
                hits = in_order([*{*hits, *across}])
        return _Piece(data, begin, line, lines, hits, not self._know.of_spawned.isdisjoint(map(_ANCHOR, hits)))

    def _forget_floods(self, here: _Piece | None, before: _Piece | None) -> _Piece | None:
        """Reads the last part of a log again, however often its messages came before."""
        left_out = bool(self._flooded)
        self._seen.clear()
        self._flood.clear()
        self._flooded.clear()
        if here is None or not left_out:
            return here
        return self._found(here.data, here.begin, here.line, here.lines, before)

    def _begin(self, piece: bytes, last: bool) -> bytes:
        """Learns from the first piece who writes here, and unwraps a small pasted log."""
        if last and len(piece) <= WRAPPED:
            self._unwrapped = Unwrapped(piece.replace(b"\r\n", b"\n"))
            piece = self._unwrapped.text
            self._headings = list(find_headings(piece))
        self._prefixes = Prefixes(sample(piece))
        if self._prefixes.in_use:
            self._placed = [
                Sighting(MemberPlaced(rank=rank, pid=writer.pid, node=writer.node), line, writer, None, f"rank {rank}")
                for line, writer, rank in introduced_processes(piece, self._prefixes)
            ]
        self.introduced = introduced(piece, self._prefixes)
        return piece

    def _hits(self, here: _Piece, before: _Piece | None, ahead: _Piece | None) -> Iterator[Sighting]:
        wanted = [hit for hit in here.hits if self._is_wanted(hit[0])]
        if not wanted:
            return
        self._spawns = any(piece.tells_of_spawned for piece in (before, here, ahead) if piece is not None)
        low, high = (0, len(here.data)) if self._unwrapped else (wanted[0][1] - BEHIND, wanted[-1][1] + LONGEST_LINE)
        above = memoryview(before.data if before is not None and low < 0 else b"")[low:]
        low = max(0, low)
        data = memoryview(here.data)[low:]
        below = memoryview(ahead.data if ahead is not None else b"")
        buffer = b"".join((above, data[: high - low], below[: max(0, high - len(here.data))]))

        @cache
        def with_the_rest() -> bytes:
            return b"".join((above, data, below))

        self._reports = OF_A_REPORT in buffer
        shift = len(above) - low
        counted_to, number = 0, here.line
        given_up = -1
        covered: dict[int, int] = {}
        for anchor, end in wanted:
            if end + shift <= given_up or end + shift <= covered.get(anchor, -1):
                continue
            if self.patience.is_out(self.bytes):
                return
            start, stop = bounds(buffer, end + shift)
            self.patience.begin(here.begin - shift + line_begin(buffer, end + shift))
            if stop - start > LONG and not self.patience.goes_on():  # what is short ends by itself
                given_up = line_end(buffer, end + shift)
                continue
            if start - shift > counted_to:
                number += newlines(here.data, counted_to, start - shift)
                counted_to = start - shift
            if stop - start > 2 * NEAR:
                covered[anchor] = min(end + shift + NEAR // 2, stop)
            writer, text = self._line(buffer, start, stop, end + shift)
            line = number + self._line_shift(start)
            yield from self._read(anchor, buffer, with_the_rest, here.begin - shift, start, stop, line, writer, text)

    def _is_wanted(self, anchor: int) -> bool:
        self._flood[anchor] += 1
        if self._flood[anchor] < MOST_PER_ANCHOR:
            return True
        if anchor not in self._know.of_spawned:
            self._flooded.add(anchor)
        return self._flood[anchor] == MOST_PER_ANCHOR

    def _line(self, buffer: bytes, start: int, stop: int, hit: int | None = None) -> tuple[Writer, str]:
        raw = buffer[start:stop]
        text = held(clean(raw))
        upto = len(clean(buffer[start:hit])) if hit is not None and hit > start and raw[:1] != b"{" else None
        writer, told = self._prefixes.split(text, upto)
        if hit is not None and len(told) > 2 * NEAR:
            told = near(told, len(told) * (hit - start) // len(raw) if upto is None else upto - text.find(told))
        text = told
        if writer is NOBODY:
            if self._headings:
                writer = self._heading_at(start)
            elif self._spawns:
                writer = spawned(buffer, start) or NOBODY
        return writer, text

    def _line_shift(self, offset: int) -> int:
        return self._unwrapped.line_shift(offset) if self._unwrapped else 0

    def _heading_at(self, offset: int) -> Writer:
        found = NOBODY
        for place, writer in self._headings:
            if place > offset:
                break
            found = writer
        return found

    def _read(
        self,
        anchor: int,
        buffer: bytes,
        with_the_rest: Callable[[], bytes],
        base: int,
        start: int,
        stop: int,
        number: int,
        writer: Writer,
        text: str,
    ) -> Iterator[Sighting]:
        """What a line with an anchor states, and the block that it begins. Only blocks need the rest of the buffer."""
        at: float | None = None
        later = 0.0
        timed = False
        above = partial(self._lines_above, buffer, start, writer)
        ours = is_ours(text, above, self._reports)
        source = not ours and is_source(text, above)
        consumed = base + start < self._consumed.get(writer.key, -1)
        raised = as_raised(text, self._above(buffer, start) if under_node(buffer, start) else "")
        text = without_source(text)
        for order, each in enumerate(self._know.signatures[anchor]):
            key = (anchor << 16 | order, writer.key)
            if self._seen[key] >= MOST_PER_STREAM or each.where.startswith(OURS) is not ours:
                continue
            if source and not each.where.endswith(SOURCE_LINES if consumed else (SOURCE_LINES, RAISE_LINES)):
                continue
            if len(text) > LONG and not self.patience.goes_on():
                break
            fact = each.read(text) or self._wrapped(each, buffer, start, stop, writer, text)
            if fact is None and raised is not None:
                fact = each.read(raised)
            if fact is None:
                continue
            self._seen[key] += 1
            if not timed:
                (at, later), timed = self._time(buffer, start, stop), True
            yield Sighting(fact, number, writer, at, text.strip()[:QUOTE], later)
        for order, one in enumerate(self._know.blocks[anchor]):
            if ours or (consumed and not one.inside_others):
                continue
            key = (anchor << 16 | 0x8000 | order, writer.key)
            if len(text) > LONG and not self.patience.goes_on():
                break
            match = one.begin.pattern.search(text)
            if match is None or self._seen[key] >= MOST_PER_STREAM:
                continue
            self._seen[key] += 1
            if not timed:
                (at, later), timed = self._time(buffer, start, stop), True
            following = BlockLines(
                self._line, self._prefixes.is_of_another, with_the_rest(), stop, writer, text[: match.start()]
            )
            logged = bool(_LOGGER.search(self._before(buffer, start, writer, text, match.start())))
            quote = text.strip()[:QUOTE]
            for fact in one.read(match, iter(following)):
                if isinstance(fact, ExceptionRaised):
                    fact = replace(fact, logged=logged)
                    self._consumed[writer.key] = base + following.consumed
                    quote = f"{fact.type}: {fact.message}".split("\n")[0][:QUOTE] if fact.message else fact.type
                yield Sighting(fact, number, writer, at, quote, later)

    def _before(self, buffer: bytes, start: int, writer: Writer, text: str, column: int) -> str:
        """The text just before a block: on the same line, else the line above, if by the same writer."""
        if column > 0 and text[:column].strip():
            return ends_of(text[:column])
        if start <= 1:
            return ""
        above, words = self._line(buffer, *bounds(buffer, start - 1))
        return ends_of(words) if above.key == writer.key else ""

    def _above(self, buffer: bytes, start: int) -> str:
        above_start, above_stop = bounds(buffer, start - 1) if start > 1 else (0, 0)
        return clean(buffer[above_start:above_stop])

    def _lines_above(self, buffer: bytes, start: int, writer: Writer) -> Iterator[str]:
        """Those of the same writer, the nearest first."""
        for _ in range(MOST_ABOVE):
            if start <= 1:
                return
            start, stop = bounds(buffer, start - 1)
            above, text = self._line(buffer, start, stop)
            if above.key == writer.key:
                yield text

    def _wrapped(self, each: Signature, buffer: bytes, start: int, stop: int, writer: Writer, text: str) -> Fact | None:
        """The same signature over a line break: with the line above (unless it only marks a place), then below."""
        if self._unwrapped is None:
            return None
        first, upper = start, text
        for _ in range(2):
            if first <= 1:
                break
            first, end = bounds(buffer, first - 1)
            above = self._line(buffer, first, end)
            if above[0].key not in (writer.key, ""):
                break
            upper = near(above[1], len(above[1])) + "\n" + upper
            fact = each.read(upper)
            if fact is not None:
                return fact
            if not above[1].strip() or above[1].strip("^~ "):
                break
        after = stop + (2 if buffer[stop : stop + 2] == b"\r\n" else 1)
        if after < len(buffer):
            below = self._line(buffer, *bounds(buffer, after, ends=False))
            if below[0].key in (writer.key, ""):
                return each.read(text + "\n" + near(below[1], 0))
        return None

    def _time(self, buffer: bytes, start: int, stop: int) -> tuple[float | None, float]:
        """The time of a line; else that of the nearest line above that has one, and by how much it may be later."""
        at = self._clock.read(head(buffer[start:stop]))
        if at is not None:
            return at, 0.0
        end, tries = stop, 0
        while at is None and start > 1 and tries < 60:
            start, stop = bounds(buffer, start - 1)
            at = self._clock.read(head(buffer[start:stop]))
            tries += 1
        return (None, 0.0) if at is None else (at, max(0.0, self._next_time(buffer, end) - at))

    def _next_time(self, buffer: bytes, stop: int) -> float:
        """Of the nearest line below that has one; no end of time where there is none."""
        for _ in range(60):
            if stop + 1 >= len(buffer):
                break
            start, stop = bounds(buffer, stop + 1, ends=False)
            at = self._clock.read(head(buffer[start:stop]))
            if at is not None:
                return at
            stop = max(stop, start)
        return math.inf


# --- A stream of bytes in pieces of one size.


def pieces(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of one size; chunks of just that size are passed on as they are."""
    rest = b""
    for chunk in chunks:
        if rest:
            chunk = rest + chunk
        whole = len(chunk) - len(chunk) % size
        if whole == len(chunk) == size:
            yield chunk
        else:
            for start in range(0, whole, size):
                yield chunk[start : start + size]
        rest = chunk[whole:]
    if rest:
        yield rest


def with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each with whether it is the last one; one empty piece where there is none."""
    previous: bytes | None = None
    for chunk in chunks:
        if previous is not None:
            yield previous, False
        previous = chunk
    yield previous or b"", True
