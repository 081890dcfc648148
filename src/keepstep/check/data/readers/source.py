# SPDX-License-Identifier: Apache-2.0
"""One file being read: its bytes in bounded pieces, hashed and counted as they pass, packed or not."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from keepstep.base.wording import size
from keepstep.check.data.inside import open_inside
from keepstep.check.data.readers.holes import holes_of
from keepstep.check.data.units import DataUnit
from keepstep.sources.files.holes import BLOCK
from keepstep.sources.files.unpack import ALWAYS, CHUNK, MOST_BYTES, MOST_TIMES, Damaged, TooMuch, packing, unpacked

PIECE = 1 << 20
"""What fits a cache: pieces of 4 MB were a third slower."""
HEAD = 64 << 10
LARGEST_WHOLE = 64 << 20
"""What is small enough to be read at once: a member of a tar, an index."""
ALWAYS_VALUES = 16 << 30
"""What chunks of arrays may always unpack to: one value repeated is common there."""
MORE = "; --work N allows N times that"
MOST_TIMES_READ = 8
"""How often all of a file may be read, in addition to ``ALWAYS`` bytes."""


def is_remote(path: str) -> bool:
    """Whether fsspec has to open it."""
    scheme, found, _ = path.partition("://")
    return bool(found) and scheme.replace("+", "").isalnum() and len(scheme) > 1


def native_crc() -> Callable[..., int] | None:
    """CRC32C in native code, from either of two libraries; None where neither is installed."""
    try:
        import crc32c

        found: Callable[..., int] = crc32c.crc32c
        return found
    except ImportError:
        pass
    try:
        import google_crc32c
    except ImportError:
        return None

    def crc(data: Any, value: int = 0) -> int:
        return google_crc32c.extend(value, bytes(data))  # type: ignore[no-any-return]

    return crc


class DataSource:
    """One file. ``told`` is called with the number of bytes read, now and then.

    The work on it is bounded by what is on disk, not by its size: a file of terabytes may be one hole.
    """

    def __init__(self, unit: DataUnit, told: Callable[[int], None] = lambda read: None, work: int = 1) -> None:
        self.unit = unit
        self._system: Any = None
        self.path = unit.path
        self.remote = is_remote(unit.path)
        self.stream: BinaryIO = self._open()
        self._told = told
        self.size, self._mtime = self._now()
        self.holes = [] if self.remote or self.size <= ALWAYS * work else holes_of(self.stream.fileno())
        """Begin and end of each hole that is skipped; none while there is little to skip."""
        self.hole_bytes = sum(end - begin for begin, end in self.holes)
        if self.hole_bytes <= ALWAYS * work:
            self.holes, self.hole_bytes = [], 0
        self.written = self._written(work)
        """Bytes that are there: without holes."""
        self._work = work
        self._most_read = work * (ALWAYS + MOST_TIMES_READ * self.written)
        self._read = self._decoded = 0
        self.digest = ""

    def _open(self) -> BinaryIO:
        if not self.remote:
            return open_inside(self.path, self.unit)
        import fsspec

        self._system = fsspec.open(self.path, "rb")  # an archive is closed when no one holds it
        opened: BinaryIO = self._system.open()
        return opened

    def _now(self) -> tuple[int, int]:
        if self.remote:
            return self._remote_size(), self.unit.mtime_ns
        info = os.fstat(self.stream.fileno())
        return info.st_size, info.st_mtime_ns

    def _written(self, work: int) -> int:
        """Where the file system does not tell holes, its blocks have to do; it may pack what is in them."""
        if self.remote or self.size <= ALWAYS * work:
            return self.size
        return min(self.size - self.hole_bytes, MOST_TIMES * BLOCK * os.fstat(self.stream.fileno()).st_blocks)

    def _remote_size(self) -> int:
        """A listing may not say it, but an open file must: readers jump."""
        size = getattr(self.stream, "size", None)
        if isinstance(size, int):
            return size
        if not self.stream.seekable():
            raise OSError("its server gives it only as a whole, without its size")
        place = self.stream.tell()
        end = self.stream.seek(0, os.SEEK_END)
        self.stream.seek(place)
        return end

    def __enter__(self) -> DataSource:
        return self

    def __exit__(self, *why: object) -> None:
        with contextlib.suppress(OSError):
            self.stream.close()

    @property
    def name(self) -> str:
        inner = self.path.partition("::")[0] if self.remote else self.path
        return inner.rpartition("/")[2]

    @property
    def changed(self) -> bool:
        """Whether it was written to, or replaced by a shorter one, since it was opened."""
        return self._now() != (self.size, self._mtime)

    def head(self, length: int = HEAD) -> bytes:
        """Its first bytes."""
        self.stream.seek(0)
        return self.stream.read(length)

    def tail(self, length: int) -> bytes:
        """Its last bytes."""
        self.stream.seek(max(0, self.size - length))
        return self.stream.read(length)

    def pieces(self, *, fast: bool = False) -> Iterator[bytes]:
        """All of it, as it is on disk, hashed on the way. Raises ``TooMuch`` at the first hole that is too large.

        ``fast``: by CRC32C, for formats that have checksums.
        """
        for part in self.parts(fast=fast):
            if isinstance(part, int):
                raise TooMuch(f"{self.said_of_holes()}; it was read up to the first one")
            yield part

    def parts(self, *, fast: bool = False) -> Iterator[bytes | int]:
        """As ``pieces``, but holes are skipped: for each, its number of bytes. With holes there is no hash."""
        self.stream.seek(0)
        crc = native_crc() if fast else None
        value, blake = 0, None if crc else hashlib.blake2b(digest_size=16)
        at, last = 0, self.size if not self.remote else 1 << 62  # a file may grow faster than it is read
        for begin, end in (*self.holes, (last, last)):
            while at < begin and (data := self.stream.read(min(PIECE, begin - at))):
                at += len(data)
                if crc is not None:
                    value = crc(data, value)
                elif blake is not None:
                    blake.update(data)
                self.worked(len(data))
                yield data
            if begin < end:
                yield end - begin
                at = self.stream.seek(end)
        if not self.holes:
            self.digest = f"crc32c:{value:08x}" if blake is None else f"blake2b:{blake.hexdigest()}"

    def said_of_holes(self) -> str:
        """How much of it is holes."""
        return f"{size(self.hole_bytes)} of its {size(self.size)} are holes, where nothing was written"

    def read_through(self, *, fast: bool = False) -> None:
        """Hash it, for readers that read in an order of their own."""
        for _ in self.parts(fast=fast):
            pass
        self.stream.seek(0)

    def content(self, how: str | None, *, fast: bool = False) -> Iterator[bytes]:
        """What is in it, unpacked if it is packed. Raises ``Damaged``, ``TooMuch`` or ``ImportError``."""
        if not how:
            yield from self.pieces(fast=fast)
        elif how == "zlib":
            yield from bounded(_inflated(self.pieces(fast=fast)), self.written)
        else:
            rest = Joined(self.pieces(fast=fast))
            yield from unpacked(rest, how, self.written)  # type: ignore[arg-type]
            for _ in rest.left():
                pass

    def content_parts(self, how: str | None, *, fast: bool = False) -> Iterator[bytes | int]:
        """As ``content``, with the sizes of holes that are skipped."""
        return self.content(how, fast=fast) if how else self.parts(fast=fast)

    def place(self) -> Any:
        """For a library that opens files by itself: a name of the open file, so no other file can take its place."""
        if self.remote or not os.path.isdir("/dev/fd"):
            return self.stream
        return f"/dev/fd/{self.stream.fileno()}"

    def worked(self, done: int = 0) -> None:
        """A sign of life, with the bytes read since the last one. Raises ``TooMuch``."""
        self._told(done)
        self._read += done
        if self._read > self._most_read:
            raise TooMuch(f"{size(self.written)} on disk need more than {size(self._most_read)} of reading{MORE}")

    def most_decoded(self, always: int = ALWAYS) -> int:
        """What it may unpack to."""
        return self._work * max(always, MOST_TIMES * self.written)

    def decoded(self, done: int, always: int = ALWAYS) -> None:
        """So many bytes came out of a library that unpacks by itself. Raises ``TooMuch``."""
        self._decoded += done
        if self._decoded > (most := self.most_decoded(always)):
            raise TooMuch(f"{size(self.written)} unpack to more than {size(most)}{MORE}")


class Joined(io.RawIOBase):
    """Pieces as a stream that can only be read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._ready, self._at = b"", 0

    def read(self, length: int = -1) -> bytes:
        while self._at >= len(self._ready):
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._ready, self._at = piece, 0
        end = len(self._ready) if length < 0 else self._at + length
        taken = self._ready[self._at : end]
        self._at += len(taken)
        return taken

    def left(self) -> Iterator[bytes]:
        """What the unpacker did not need: all of the file is hashed."""
        yield from self._pieces


def bounded(pieces: Iterator[bytes], packed_size: int) -> Iterator[bytes]:
    """As much as may be unpacked from one file. Raises ``TooMuch``."""
    most = min(MOST_BYTES, max(ALWAYS, MOST_TIMES * packed_size))
    done = 0
    for piece in pieces:
        done += len(piece)
        if done > most:
            raise TooMuch(f"{size(packed_size)} unpack to more than {size(most)}")
        yield piece


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A zlib stream, as TensorFlow writes it."""
    unpack = zlib.decompressobj()
    try:
        for piece in pieces:
            while piece:
                out = unpack.decompress(piece, CHUNK)
                if out:
                    yield out
                piece = unpack.unconsumed_tail
                if unpack.eof:
                    break
        while not unpack.eof and (out := unpack.decompress(unpack.unconsumed_tail, CHUNK)):
            yield out
    except zlib.error as error:
        raise Damaged(str(error)) from error
    if not unpack.eof:
        raise Damaged("the end is missing")


def packed_how(head: bytes) -> str | None:
    """How a file is packed, by its first bytes: as for logs, or as a zlib stream."""
    how = packing(head)
    if how is None and len(head) > 2 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0:
        with contextlib.suppress(zlib.error):
            if zlib.decompressobj().decompress(head, 64):
                return "zlib"
    return how


def unpacked_head(head: bytes, how: str) -> bytes:
    """The first bytes of what is packed; shorter or empty if even those are damaged."""
    found = b""
    with contextlib.suppress(Damaged, ImportError):
        pieces = _inflated(iter([head])) if how == "zlib" else unpacked(io.BytesIO(head), how, HEAD << 4)
        for piece in pieces:
            found += piece
            if len(found) >= HEAD:
                break
    return found[:HEAD]
