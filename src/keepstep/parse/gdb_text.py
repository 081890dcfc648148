# SPDX-License-Identifier: Apache-2.0
"""What gdb prints of a crash: in a log where somebody ran under it, or of a core when we ask it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import FatalSignal, Frame
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.parse.block import block

MOST_FRAMES = 120
MOST_LINES = 400

_FRAME = lazy_pattern(
    r"^\s*#\d+\s+(?:(?P<address>0x[\da-f]+) in )?(?P<function>.+?) ?\((?P<arguments>.*?)\)?(?: at (?P<source>[^\s:]+):(?P<line>\d+))?"
    r"(?: from (?P<library>\S+))?\s*$"
)
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
    struck: list[Frame] = []
    other = 0
    for _, line in zip(range(MOST_LINES), lines, strict=False):
        if _STARTS.match(line):
            if _FIRST.match(line):
                found = []
            frame = _frame(line, library_at)
            if _HANDLED.match(line):  # what stands above only handled the signal; this is the thread that was struck
                found = struck = []
            elif frame is not None and len(found) < MOST_FRAMES:
                found.append(frame)
            if len(found) > len(best):
                best = found
        elif not _NOISE.match(line):
            other += 1
            if len(best) > 1 or other > 12:
                break
    return tuple(struck or best)


def believed(
    lines: Iterable[str], is_read: Callable[[str], bool], library_at: Callable[[int], str | None]
) -> tuple[list[str], str | None]:
    """The frames that can be believed of a backtrace for which not all libraries were read, and the next one to read.

    gdb steps out of a function by its library's tables; without them what follows is guessed.
    """
    kept: list[str] = []
    for line in lines:
        if _FIRST.match(line):
            kept.clear()
        if not _STARTS.match(line):
            continue
        kept.append(line)
        match = _FRAME.match(line[:2000])
        if match is None:
            continue
        if match["library"]:
            if not is_read(match["library"]):
                return kept, match["library"]
        elif match["function"] == "??" and not (match["address"] and library_at(int(match["address"], 16))):
            break
    return kept, None


def _frame(line: str, library_at: Callable[[int], str | None]) -> Frame | None:
    match = _FRAME.match(line[:2000])
    if match is None:
        return None
    address = int(match["address"], 16) if match["address"] else None
    library = (library_at(address) if address is not None else None) or match["library"]
    if library:
        return Frame(function=match["function"], file=library, library=library.rpartition("/")[2])
    number = int(match["line"]) if match["line"] else None
    return Frame(function=match["function"], file=match["source"], line=number, library="")


def _read(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    yield FatalSignal(signal=match["signal"], frames=frames(lines))


BLOCKS = (
    block(
        r"(?:Program|Thread \d+ [^\n]{0,80}) (?:received|terminated with) signal (?P<signal>SIG(?:SEGV|ABRT|BUS|FPE|ILL))\b",
        _read,
        anchors=("received signal SIG", "terminated with signal SIG"),
    ),
)
