# SPDX-License-Identifier: Apache-2.0
"""Lines of a text of any size, with the byte that each begins at."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST = 64 << 20
TOO_LONG = b"\0too long"
"""Stands for a line that is longer than ``LONGEST``, or in which there is a hole."""


def lines_of(pieces: Iterator[bytes | int]) -> Iterator[tuple[bytes, int, bool]]:
    """Each line with its end mark, where it begins, and whether it has an end mark. A number is a hole of that size."""
    rest: list[bytes] = []
    held = at = 0
    dropped = False
    for piece in pieces:
        if isinstance(piece, int):
            held, rest, dropped = held + piece, [], True
            continue
        begin = 0
        while (end := piece.find(b"\n", begin)) >= 0:
            line = piece[begin : end + 1]
            if rest:
                line = b"".join((*rest, line))
                rest = []
            length = held + end + 1 - begin
            yield (TOO_LONG if dropped else line), at, True
            at, held, dropped, begin = at + length, 0, False, end + 1
        left = piece[begin:]
        held += len(left)
        if held > LONGEST:
            rest, dropped = [], True
        elif left:
            rest.append(left)
    if held:
        yield (TOO_LONG if dropped else b"".join(rest)), at, False
