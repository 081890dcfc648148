# SPDX-License-Identifier: Apache-2.0
"""The end of a log: progress, the last errors, and the last line of each writer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from keepstep.model.facts.training import LastOwnLine, StreamEnded
from keepstep.parse.scan.closing_words import closing_line
from keepstep.parse.scan.knowledge import Knowledge
from keepstep.parse.scan.last_errors import LAST_LINES, read_errors
from keepstep.parse.scan.lines.line_count import newlines
from keepstep.parse.scan.lines.line_times import Clock
from keepstep.parse.scan.lines.log_lines import clean, held, stamped
from keepstep.parse.scan.lines.not_said import OF_A_REPORT, is_ours, is_source
from keepstep.parse.scan.lines.prefix import Prefixes
from keepstep.parse.scan.lines.writer import NOBODY, Writer
from keepstep.parse.scan.sighting import QUOTE, Sighting
from keepstep.parse.tools.programs.memory_readings import read_memory
from keepstep.signals.own_words import is_own

WHOLE = 128 << 10
"""A log of at most this size is read for progress from its first line."""
TAIL = 32 << 10
TAIL_OF_ONE = 4 << 10
"""How much of the end of a large log is read for progress: more where many ranks write to it."""
ABOVE = 8
"""How many of a program's own lines above the last one of a stream are kept: launchers write below them."""
LONGEST_TOLD = 4 << 10
"""How much is read of a line that may report progress or be the last one."""


class LogEnd:
    """Reads the end of one log. ``heading_at`` and ``line_shift`` take an offset in the buffer."""

    def __init__(
        self,
        knowledge: Knowledge,
        clock: Clock,
        prefixes: Prefixes,
        heading_at: Callable[[int], Writer],
        line_shift: Callable[[int], int],
        whole: int = WHOLE,
    ) -> None:
        self._know = knowledge
        self._clock = clock
        self._prefixes = prefixes
        self._heading_at = heading_at
        self._line_shift = line_shift
        self._whole = whole

    def read(self, buffer: bytes, ended: int, whole: bool) -> Iterator[Sighting]:
        """Of a small log all of it is read, of a large one its end. ``ended``: how many lines the whole log has."""
        reach = min(TAIL, max(self._whole, TAIL_OF_ONE)) if self._prefixes.in_use else TAIL_OF_ONE
        begin = 0 if whole and len(buffer) <= self._whole else max(0, len(buffer) - reach)
        if begin:
            begin = buffer.find(b"\n", begin) + 1
        ends: dict[str, deque[tuple[int, Writer, str, str]]] = {}
        reports = OF_A_REPORT in buffer
        for position, number, piece in _lines(buffer, begin, ended + 1 - newlines(buffer, begin, len(buffer))):
            line = clean(piece)
            writer, text = self._prefixes.split(held(line))
            timed = stamped(piece, line, text)
            if writer is NOBODY:
                writer = self._heading_at(position)
            words = text.strip()
            if not words:
                continue
            shown = number + self._line_shift(position)
            if writer.key not in ends:
                ends[writer.key] = deque(maxlen=LAST_LINES)
            said = _is_said(text, ends[writer.key], reports)
            for fact in (self._know.read_progress(text), read_memory(text)) if said else ():
                if fact is not None:
                    yield Sighting(fact, shown, writer, self._clock.read(timed), words[:QUOTE])
            ends[writer.key].append((shown, writer, text, timed))
        for end in ends.values():
            for index, error in read_errors(_what_was_said(end, reports)):
                shown, writer, text, timed = end[index]
                yield Sighting(error, shown, writer, self._clock.read(timed), text.strip()[:QUOTE])
            shown, writer, text, timed = end[-1]
            words = text.strip()[:QUOTE]
            own = list(islice((each for each in islice(reversed(end), 1, None) if is_own(each[2].strip())), ABOVE))[
                ::-1
            ]
            above = tuple(text.strip()[:QUOTE] for _, _, text, _ in own)
            if own and not is_own(words):
                number, its, _, when = own[-1]
                yield Sighting(LastOwnLine(text=above[-1]), number, its, self._clock.read(when), above[-1])
            lines = [text for _, _, text, _ in end]
            fact = StreamEnded(last=words, above=above, finished=closing_line(lines))
            yield Sighting(fact, shown, writer, self._clock.read(timed), words)


_Lines = deque[tuple[int, Writer, str, str]]


def _is_said(text: str, above: Iterable[tuple[int, Writer, str, str]], reports: bool) -> bool:
    """Whether the job said it: source that Python shows, and what keepstep prints, is nobody's message."""

    def lines() -> Iterator[str]:
        return (line for _, _, line, _ in reversed(list(above)))

    return not (is_ours(text, lines, reports) or is_source(text, lines))


def _what_was_said(end: _Lines, reports: bool) -> list[str]:
    """The last lines of a stream; empty those that the job did not say."""
    lines = list(end)
    return [each[2] if _is_said(each[2], lines[:number], reports) else "" for number, each in enumerate(lines)]


def _lines(buffer: bytes, begin: int, number: int) -> Iterator[tuple[int, int, bytes]]:
    """Offset, number and bytes of each line that is not blank; of a progress bar, its last state."""
    position = begin
    while position < len(buffer):
        stop = buffer.find(b"\n", position)
        stop = len(buffer) if stop < 0 else stop
        piece = buffer[position:stop]
        if b"\r" in piece:
            piece = piece.rstrip(b"\r").rsplit(b"\r", 1)[-1]
        if b"\x00" in piece:  # a hole that a crashed host left
            piece = piece.replace(b"\x00", b"")
        piece = piece[:LONGEST_TOLD]
        if piece and not piece.isspace():
            yield position, number, piece
        position = stop + 1
        number += 1
