# SPDX-License-Identifier: Apache-2.0
"""Text that a terminal broke at its right edge, joined again. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

from keepstep.base.lazy_pattern import lazy_pattern

NARROWEST = 70
WIDEST = 260
FEWEST = 3
SHARE = 0.15
SHORT_WORD = 3

_DRAWN = lazy_pattern(rb"^(?:[-=+|*#_~.\s]*$|\s*[|+]|\s*\xe2[\x94\x95])|[|+]\s{0,200}$|\xe2[\x94\x95].$")


# how a new line of a log begins: adjacent lines of equal length need not be one broken line
_BEGINS_ANEW = lazy_pattern(
    rb"\s*(?:\[|\(\w+ pid=|\d{4}[-/]\d\d|[IWEF]\d{4}|\d{1,4}: |Traceback|File \"|[\w.\-]+:\d+:\d+ \[|[A-Z][a-z]{2} +\d+ \d\d:|"
    rb"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b|\$ |"
    rb"(?:Killed|Segmentation fault|Aborted|Terminated|Bus error|slurmstepd|srun:|terminate called))"
)


class Unwrapped:
    """The joined text, and the line numbers that it had before."""

    def __init__(self, text: bytes) -> None:
        width = _edge(text)
        self._joins: list[int] = []
        self.text = text if width is None else self._join(text, width)

    def line_shift(self, offset: int) -> int:
        """How many line breaks were taken out before an offset of the joined text."""
        return bisect_right(self._joins, offset)

    def _join(self, text: bytes, width: int) -> bytes:
        out: list[bytes] = []
        length = 0
        lines = text.split(b"\n")
        for number, line in enumerate(lines):
            out.append(line)
            length += len(line)
            if number + 1 == len(lines):
                break
            after = lines[number + 1]
            if _width(line) == width and not _DRAWN.search(line) and after.strip() and not _begins_anew(after, line):
                self._joins.append(length)
            else:
                out.append(b"\n")
                length += 1
        return b"".join(out)


def _begins_anew(line: bytes, above: bytes) -> bool:
    """Whether a line is separate: it starts as log lines do, or just as the line above does."""
    if _BEGINS_ANEW.match(line) or _shape(line) == _shape(above):
        return True
    first, _, rest = above.lstrip().partition(b" ")
    return len(first) > SHORT_WORD and bool(rest) and line.lstrip().startswith(first + b" ")


def _shape(line: bytes) -> bytes:
    return re.sub(rb"\d+", b"0", line[:24])[:8]


def _edge(text: bytes) -> int | None:
    """The width at which lines were broken, if they were: the longest one, reached by many."""
    widths = Counter(_width(line) for line in text.split(b"\n") if line.strip() and not _DRAWN.search(line))
    if not widths:
        return None
    widest = max(widths)
    enough = widths[widest] >= max(FEWEST, SHARE * sum(widths.values()))
    return widest if enough and NARROWEST <= widest <= WIDEST else None


def _width(line: bytes) -> int:
    return len(line.rstrip(b"\r").decode("utf-8", "replace"))
