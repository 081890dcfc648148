# SPDX-License-Identifier: Apache-2.0
"""A part of the host's memory, filled with patterns and read back. Runs in a child: too much would be killed."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from keepstep.check.gpu.exercise import Say, Wrong

PIECE = 1 << 24
"""Bytes that are compared at once."""
PAGE = 4096
PATTERNS = tuple(value for bit in range(8) for value in (1 << bit, 0xFF ^ (1 << bit)))


def exercise(size_bytes: int, say: Say) -> None:
    """Each pattern is written to all of it before any of it is read: no cache holds that much."""
    pieces = max(1, size_bytes // PIECE)
    say("device", name="host memory", kind="host memory", uuid=None, framework="")
    done = 0
    with mmap.mmap(-1, pieces * PIECE) as memory:
        for pattern in (*PATTERNS, 0, 0xFF):
            by_page = pattern in (0, 0xFF)
            same = b"" if by_page else bytes([pattern]) * PIECE
            for number in range(pieces):
                memory[number * PIECE : (number + 1) * PIECE] = same or _addresses(number, pattern)
            for number in range(pieces):
                seen, wanted = memory[number * PIECE : (number + 1) * PIECE], same or _addresses(number, pattern)
                for wrong in _wrong(seen, wanted, number, pieces * PIECE):
                    say("wrong", **wrong._asdict())
            done += 1
            say("progress", doing="host memory", patterns=done, bytes=pieces * PIECE, rounds=1)
    say("end")


def _addresses(piece: int, inverse: int) -> bytes:
    """Each page filled with its own number, or with the inverse of it."""
    mask = int.from_bytes(bytes([inverse]) * 8, "little")
    first = piece * (PIECE // PAGE)
    return b"".join((page ^ mask).to_bytes(8, "little") * (PAGE // 8) for page in range(first, first + PIECE // PAGE))


def _wrong(seen: bytes, wanted: bytes, piece: int, size_bytes: int) -> Iterator[Wrong]:
    if seen == wanted:
        return
    places = [place for place in range(len(seen)) if seen[place] != wanted[place]]
    place = f"byte {piece * PIECE + places[0]:,} of {size_bytes:,}"
    first = (f"0x{data[places[0]]:02x}" for data in (seen, wanted))
    yield Wrong("memory", "", len(places), len(seen), place, *first)
