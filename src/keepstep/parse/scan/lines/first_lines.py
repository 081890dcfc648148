# SPDX-License-Identifier: Apache-2.0
"""Where a log's first lines come again: its script was started once more. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern

HEAD = 8 << 10
LETTERS = 10
"""Shorter lines, such as separators, prove nothing."""
OF_START = 200
"""Every process may print the line once: all in this many lines."""
_VARIES = lazy_pattern(
    r"0x[0-9a-f]+|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\b|\d+"
)
"""Times, numbers of hosts and processes."""
_LETTER = lazy_pattern(r"[A-Za-z]")


def come_again(text: bytes, after: int) -> Iterator[tuple[int, str]]:
    """Line and text of each later occurrence of the log's first line, after line ``after``, with the first one.

    Nothing if the line is also printed during the run, long after the start.
    """
    first = next((line for line in text[:HEAD].split(b"\n") if _letters(_shape(line)) >= LETTERS), None)
    if first is None or b"\r" in first:
        return
    shape = _shape(first)
    words = max(shape.split("#"), key=len).encode()
    found: list[tuple[int, str]] = []
    number, position = 1, 0
    while (place := text.find(words, position)) >= 0:
        begin = text.rfind(b"\n", 0, place) + 1
        stop = text.find(b"\n", place)
        stop = len(text) if stop < 0 else stop
        number += text.count(b"\n", position, begin)
        line = text[begin:stop]
        if _shape(line) == shape:
            if OF_START < number <= after:
                return
            found.append((number, line.decode("utf-8", "replace").strip()))
        position = stop
    later = [each for each in found if each[0] > after]
    if later and found[0][0] <= after:
        yield found[0]
        yield from later


def _shape(line: bytes) -> str:
    return _VARIES.sub("#", line.decode("ascii", "replace").strip())


def _letters(shape: str) -> int:
    return len(_LETTER.findall(shape))
