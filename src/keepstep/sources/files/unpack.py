# SPDX-License-Identifier: Apache-2.0
"""Packed logs (gz, zst, bz2, xz), unpacked in chunks. A small file may hold terabytes, so the result is bounded."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from keepstep.base.wording import size

CHUNK = 256 << 10
PIECE = 1 << 20
ZSTD_PIECE = 1024
"""A block of four bytes may hold 128 kB, and everything in a piece comes at once."""
ALWAYS = 256 << 20
MOST_TIMES = 250
MOST_BYTES = 64 << 30
"""A file may unpack to ``ALWAYS`` bytes, or else ``MOST_TIMES`` its size, and never to more than ``MOST_BYTES``."""
MOST_MEMORY = 256 << 20
"""Memory for one unpacker's tables: xz's largest setting needs 65 MB."""


class Damaged(Exception):
    """The file ends too soon, or is not what its first bytes say."""


class TooMuch(Exception):
    """The file unpacks to more than is read from one file."""


def packing(head: bytes) -> str | None:
    """How a file is packed, by its first bytes."""
    if head[:2] == b"\x1f\x8b":
        return "gz"
    if head[:4] == b"\x28\xb5\x2f\xfd":
        return "zst"
    if head[:3] == b"BZh":
        return "bz2"
    if head[:6] == b"\xfd7zXZ\x00":
        return "xz"
    return None


def unpacked(stream: BinaryIO, how: str, packed_size: int) -> Iterator[bytes]:
    """Its content, in order. Raises :class:`Damaged`, :class:`TooMuch`, or ``ImportError`` without zstandard."""
    most = min(MOST_BYTES, max(ALWAYS, MOST_TIMES * packed_size))
    done = 0
    try:
        for chunk in _READERS[how](stream):
            done += len(chunk)
            yield chunk
            if done > most:
                raise TooMuch(f"{size(packed_size)} unpack to more than {size(most)}; the first {size(done)} were read")
    except (EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise Damaged(str(error)) from error


def _gunzip(stream: BinaryIO) -> Iterator[bytes]:
    """Member by member, never more than a chunk at a time."""
    packed = b""
    while True:
        packed = packed.lstrip(b"\x00") or stream.read(PIECE).lstrip(b"\x00")
        if not packed:
            return
        member = zlib.decompressobj(31)
        while not member.eof:
            packed = packed or stream.read(PIECE)
            chunk = member.decompress(packed, CHUNK)
            if chunk:
                yield chunk
            elif not packed:
                raise Damaged("the end is missing")
            packed = member.unconsumed_tail
        packed = member.unused_data


def _bunzip(stream: BinaryIO) -> Iterator[bytes]:
    return _one_after_the_other(stream, bz2.BZ2Decompressor)


def _unxz(stream: BinaryIO) -> Iterator[bytes]:
    return _one_after_the_other(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY))


def _one_after_the_other(stream: BinaryIO, begin: Callable[[], Any]) -> Iterator[bytes]:
    """Streams of one format, as `cat` and parallel packers join them."""
    packed = stream.read(PIECE)
    while packed:
        one = begin()
        while not one.eof:
            try:
                chunk = one.decompress(packed, CHUNK)
            except OSError as error:  # bz2's error for damage
                raise Damaged(str(error)) from error
            packed = b""
            if chunk:
                yield chunk
            if one.needs_input and not one.eof:
                packed = stream.read(PIECE)
                if not packed:
                    raise Damaged("the end is missing")
        packed = one.unused_data.lstrip(b"\x00") or stream.read(PIECE)


def _unzstd(stream: BinaryIO) -> Iterator[bytes]:
    """Frame by frame; chunks are as large as a piece makes them."""
    import zstandard

    def begin() -> Any:
        return zstandard.ZstdDecompressor(max_window_size=MOST_MEMORY // 2).decompressobj()

    frame = begin()
    begun = False
    ready: list[bytes] = []
    try:
        while packed := stream.read(ZSTD_PIECE):
            while packed:
                begun = True
                ready.append(frame.decompress(packed))
                packed = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame, begun = begin(), False
            if sum(map(len, ready)) >= CHUNK:
                yield b"".join(ready)
                ready = []
    except zstandard.ZstdError as error:
        yield b"".join(ready)
        raise Damaged(str(error)) from error
    yield b"".join(ready)
    if begun:
        raise Damaged("the end is missing")


_READERS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    "gz": _gunzip,
    "zst": _unzstd,
    "bz2": _bunzip,
    "xz": _unxz,
}
