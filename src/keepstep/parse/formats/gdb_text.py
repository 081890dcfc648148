# SPDX-License-Identifier: Apache-2.0
"""What gdb prints about a crash: in the log of a program run under it, or about a core when we ask it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import FatalSignal, Frame
from keepstep.parse.scan.block import block

MOST_FRAMES = 120
MOST_LINES = 400
LONGEST_LINE = 2000

_FRAME = lazy_pattern(r"\s*#\d+\s+(?:(?P<address>0x[\da-f]+) in )?(?P<function>\S[^(\n]*)\(", most=LONGEST_LINE)
_SOURCE = lazy_pattern(r"(?P<source>[^\s:]+):(?P<line>\d+)")
_STARTS = lazy_pattern(r"^\s*#\d+\s+")
_FIRST = lazy_pattern(r"^\s*#0\s")
_HANDLED = lazy_pattern(r"^\s*#\d+\s+<signal handler called>")
_NOISE = lazy_pattern(
    r"^(?:\[|warning:|Missing separate|\(gdb\)|\s|$|Thread \d+ \(|Download|Using host libthread_db|Reading symbols)"
)


def frames(lines: Iterable[str], library_at: Callable[[int], str | None] = lambda address: None) -> tuple[Frame, ...]:
    """The frames of the longest backtrace, innermost first, without those of a handler of the signal.

    ``library_at`` knows the library of an address.
    """
    best: list[Frame] = []
    found: list[Frame] = []
    crashed: list[Frame] = []
    other = 0
    for _, line in zip(range(MOST_LINES), lines, strict=False):
        if _STARTS.match(line):
            if _FIRST.match(line):
                found = []
            frame = _frame(line, library_at)
            if _HANDLED.match(line):  # the frames above only handled the signal; this is the thread that crashed
                found = crashed = []
            elif frame is not None and len(found) < MOST_FRAMES:
                found.append(frame)
            if len(found) > len(best):
                best = found
        elif not _NOISE.match(line):
            other += 1
            if len(best) > 1 or other > 12:
                break
    return tuple(crashed or best)


def believed(
    lines: Iterable[str], is_read: Callable[[str], bool], library_at: Callable[[int], str | None]
) -> tuple[list[str], str | None]:
    """The frames that can be believed of a backtrace for which not all libraries were read, and the next one to read.

    gdb unwinds a function with its library's tables; without them, what follows is a guess.
    """
    kept: list[str] = []
    for line in lines:
        if _FIRST.match(line):
            kept.clear()
        if not _STARTS.match(line):
            continue
        kept.append(line)
        told = _told(line)
        if told is None:
            continue
        if told.library:
            if not is_read(told.library):
                return kept, told.library
        elif told.function == "??" and not (told.address and library_at(told.address)):
            break
    return kept, None


def _frame(line: str, library_at: Callable[[int], str | None]) -> Frame | None:
    told = _told(line)
    if told is None:
        return None
    library = (library_at(told.address) if told.address is not None else None) or told.library
    if library:
        return Frame(function=told.function, file=library, library=library.rpartition("/")[2])
    return Frame(function=told.function, file=told.source, line=told.line, library="")


class _BacktraceLine(NamedTuple):
    """What a line of a backtrace says."""

    address: int | None
    function: str
    source: str | None
    line: int | None
    library: str | None


def _told(line: str) -> _BacktraceLine | None:
    """``#3  0x00007f12 in name (arguments) at name.c:12 from /lib/name.so``, read from both ends."""
    line = line[:LONGEST_LINE]
    begin = _FRAME.match(line)
    if begin is None:
        return None
    rest, library = _last(line[begin.end() :].rstrip(), " from")
    _, place = _last(rest, " at")
    source = _SOURCE.fullmatch(place) if place else None
    return _BacktraceLine(
        address=int(begin["address"], 16) if begin["address"] else None,
        function=begin["function"].removesuffix(" "),
        source=source["source"] if source else None,
        line=int(source["line"]) if source else None,
        library=library,
    )


def _last(text: str, word: str) -> tuple[str, str | None]:
    """What follows the word, if it is the last but one, and what comes before it."""
    before, _, last = text.rpartition(" ")
    return (
        (before.removesuffix(word), last)
        if last and before.endswith(word) and not any(map(str.isspace, last))
        else (text, None)
    )


def _read(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    yield FatalSignal(signal=match["signal"], frames=frames(lines))


BLOCKS = (
    block(
        r"(?:Program|Thread \d+ [^\n]{0,80}) (?:received|terminated with) signal (?P<signal>SIG(?:SEGV|ABRT|BUS|FPE|ILL))\b",
        _read,
    ),
)
