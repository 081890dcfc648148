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

from keepstep.base.safe_files import open_regular
from keepstep.base.wording import size
from keepstep.check.data.units import DataUnit
from keepstep.sources.files.unpack import ALWAYS, CHUNK, MOST_BYTES, MOST_TIMES, Damaged, TooMuch, packing, unpacked

PIECE = 1 << 20
"""What fits a cache: pieces of 4 MB were a third slower."""
HEAD = 64 << 10
LARGEST_WHOLE = 64 << 20
"""What is small enough to be read at once: a member of a tar, an index."""


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
    """One file. ``told`` is called with the number of bytes read, now and then."""

    def __init__(self, unit: DataUnit, told: Callable[[int], None] = lambda read: None) -> None:
        self.unit = unit
        self._system: Any = None
        self.path = unit.path
        self.remote = is_remote(unit.path)
        self.stream: BinaryIO = self._open()
        self._told = told
        self.size, self._mtime = self._now()
        self._hash: Any = None
        self.digest = ""

    def _open(self) -> BinaryIO:
        if not self.remote:
            return open_regular(self.path)
        import fsspec

        self._system = fsspec.open(self.path, "rb")  # an archive is closed when no one holds it
        opened: BinaryIO = self._system.open()
        return opened

    def _now(self) -> tuple[int, int]:
        if self.remote:
            return self._remote_size(), self.unit.mtime_ns
        info = os.fstat(self.stream.fileno())
        return info.st_size, info.st_mtime_ns

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

    def pieces(self, piece: int = PIECE, *, fast: bool = False) -> Iterator[bytes]:
        """All of it, as it is on disk, hashed on the way. ``fast``: by CRC32C, for formats that have checksums."""
        self.stream.seek(0)
        crc = native_crc() if fast else None
        value, blake = 0, None if crc else hashlib.blake2b(digest_size=16)
        left = self.size if not self.remote else 1 << 62  # a file may grow faster than it is read
        while left and (data := self.stream.read(min(piece, left))):
            left -= len(data)
            if crc is not None:
                value = crc(data, value)
            elif blake is not None:
                blake.update(data)
            self._told(len(data))
            yield data
        self.digest = f"crc32c:{value:08x}" if blake is None else f"blake2b:{blake.hexdigest()}"

    def read_through(self, *, fast: bool = False) -> None:
        """Hash it, for readers that read in an order of their own."""
        for _ in self.pieces(fast=fast):
            pass
        self.stream.seek(0)

    def content(self, how: str | None, *, fast: bool = False) -> Iterator[bytes]:
        """What is in it, unpacked if it is packed. Raises ``Damaged``, ``TooMuch`` or ``ImportError``."""
        if not how:
            yield from self.pieces(fast=fast)
        elif how == "zlib":
            yield from bounded(_inflated(self.pieces(fast=fast)), self.size)
        else:
            rest = Joined(self.pieces(fast=fast))
            yield from unpacked(rest, how, self.size)  # type: ignore[arg-type]
            for _ in rest.left():
                pass

    def place(self) -> Any:
        """For a library that opens files by itself: a name of the open file, so no other file can take its place."""
        if self.remote or not os.path.isdir("/dev/fd"):
            return self.stream
        return f"/dev/fd/{self.stream.fileno()}"

    def worked(self, done: int = 0) -> None:
        """A sign of life from a reader that reads by itself."""
        self._told(done)


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
