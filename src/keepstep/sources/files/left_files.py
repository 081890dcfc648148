# SPDX-License-Identifier: Apache-2.0
"""The files that a run left behind: each one's kind, and its bytes in bounded chunks. ``file_search.py`` finds them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.safe_files import open_regular
from keepstep.base.wording import size
from keepstep.parse.formats.flight_recorder import looks_like_dump
from keepstep.parse.formats.json_document import is_document
from keepstep.signals.blackbox import is_box
from keepstep.sources.files.holes import data_in
from keepstep.sources.files.unpack import CHUNK, Damaged, TooMuch, packing, unpacked

GAPS = "recording-has-gaps"
"""A file with this name marks an attempt whose disk was full."""
SNIFF = 64 << 10
HOLE = 64
MOST_STANDARD_INPUT = 2 << 30


class FileKind(Enum):
    LOG = "log"
    CORE = "core"
    FLIGHT_RECORDER = "flight recorder"
    BLACK_BOX = "black box"
    NOTES = "notes"
    """Evidence that keepstep itself recorded, one JSON line each."""
    METRICS = "metrics"
    """What `keepstep run` measured, one JSON line each."""
    DOCUMENT = "document"
    """JSON in which nobody reports anything: a configuration, results. Read as a log only if named."""
    ARRIVALS = "arrivals"
    """When the lines of logs reached `keepstep run`."""


@dataclass(frozen=True, slots=True)
class RunNode:
    """One host of a run on several: its folder in the attempt's, and what is known about it."""

    number: int
    host: str
    """Its name in reports, different from those of the others."""
    ahead_s: float = 0.0
    """How far its clock is ahead of the leader's."""
    ranks: tuple[int, ...] = ()
    serving: tuple[int, ...] = ()
    """Of them, those that serve others and never end by themselves."""
    living: frozenset[int] | None = None
    """The processes that lived when its boxes were sent; None: its boxes were not sent, but are its own."""
    looked_ns: int = 0
    """By its monotonic clock, when that was."""
    fresh: bool = False
    """Whether that was just now."""


@dataclass(frozen=True, slots=True)
class LeftFile:
    """One file that a run left behind. ``name`` is its name in reports."""

    path: Path | None
    name: str
    kind: FileKind
    size: int = 0
    modified: float | None = None
    data: bytes | None = None
    """For what has already been read: standard input, a client's answer."""
    same: tuple[int, int] | None = None
    """Device and inode: a file that has replaced it since it was found is not read."""
    node: RunNode | None = None
    """The host that it is from, in a run on several."""
    stored: int = 0
    """How much of it is on the disk: less than ``size`` if it has holes."""
    cut: str | None = None
    """Why ``data`` is not all of it."""

    def open(self) -> BinaryIO:
        """Its bytes as they are on disk. Raises ``OSError``."""
        if self.path is None:
            return io.BytesIO(self.data or b"")
        return open_regular(self.path, same=self.same)


def kind_of(path: Path, head: bytes) -> FileKind | None:
    """By its first bytes and its name; None for a file that is of no use here."""
    if head[:4] == b"\x7fELF":
        return FileKind.CORE if len(head) > 17 and head[16:18] in (b"\x04\x00", b"\x00\x04") else None
    if looks_like_dump(path.name, head):
        return FileKind.FLIGHT_RECORDER
    if is_box(head):
        return FileKind.BLACK_BOX
    if head.startswith(b'{"fact": "') and path.suffix == ".jsonl":
        return FileKind.NOTES
    if _MEASURED.match(head):
        return FileKind.METRICS
    if _ARRIVED.match(head):
        return FileKind.ARRIVALS
    if _OF_RUN_FOLDER.match(head):
        return None
    if not head and path.suffix == ".jsonl":
        return None
    if packing(head) or not head:
        return FileKind.LOG
    if _share_of_control(head) > 0.05:
        return None
    return FileKind.DOCUMENT if is_document(head, whole=len(head) < SNIFF) else FileKind.LOG


_OF_RUN_FOLDER = lazy_pattern(rb'\{\s*"(?:schema":\s*"keepstep\.(?:run|report|events|node|living)/|node":\s*\d)')
"""What `keepstep run` writes about a run: it quotes errors, but is not one."""
_MEASURED = lazy_pattern(rb'\{"schema": "keepstep\.metrics/')
_ARRIVED = lazy_pattern(rb'\{"schema": "keepstep\.arrivals/')
_STRANGE = bytes(n for n in range(32) if n not in (7, 8, 9, 10, 12, 13, 27))


def _share_of_control(head: bytes) -> float:
    return (len(head) - len(head.translate(None, _STRANGE))) / max(1, len(head))


class Chunks:
    """The bytes of one file, unpacked, in chunks.

    ``problem`` is set when it ended too soon, ``stopped`` when it unpacks to more than is read of one file. ``holes``:
    how many bytes were skipped because they were never written; a few zeros stand for them.
    """

    def __init__(self, left: LeftFile, begin: int = 0, end: int | None = None) -> None:
        self._left = left
        self._begin = begin
        self._end = end
        self.problem: str | None = None
        self.stopped: str | None = None
        self.holes = 0

    def __iter__(self) -> Iterator[bytes]:
        if self._left.data is not None:
            self.stopped = self._left.cut
            yield from _sliced(self._left.data)
            return
        try:
            with self._left.open() as stream:
                head = stream.read(SNIFF)
                stream.seek(self._begin)
                how = packing(head) if self._begin == 0 else None
                if how is not None:
                    yield from self._unpacked(stream, how)
                elif self._left.stored < self._left.size:
                    yield from self._written(stream)
                else:
                    yield from _plain(stream, self._end)
        except OSError as error:
            self.problem = error.strerror or str(error)

    def _written(self, stream: BinaryIO) -> Iterator[bytes]:
        """What is on the disk. Holes have no line ends, so the numbers of lines stay."""
        place, end = self._begin, self._end if self._end is not None else os.fstat(stream.fileno()).st_size
        for begin, last in [*data_in(stream.fileno(), place, end), (end, end)]:
            if begin - place > HOLE:
                self.holes += begin - place
                yield bytes(HOLE)
                place = begin
            stream.seek(place)
            yield from _plain(stream, last)
            place = last

    def _unpacked(self, stream: BinaryIO, how: str) -> Iterator[bytes]:
        try:
            yield from unpacked(stream, how, self._left.stored)
        except TooMuch as error:
            self.stopped = str(error)
        except Damaged as error:
            self.problem = f"damaged or truncated .{how} ({error}); read as far as it goes"
        except ImportError:
            self.problem = f"reading .{how} needs the package zstandard"


def _plain(stream: BinaryIO, end: int | None) -> Iterator[bytes]:
    while True:
        size = CHUNK if end is None else min(CHUNK, end - stream.tell())
        chunk = stream.read(size) if size > 0 else b""
        if not chunk:
            return
        yield chunk


def _sliced(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK):
        yield data[start : start + CHUNK]


def read_standard_input() -> LeftFile:
    """All of standard input, bounded."""
    data = sys.stdin.buffer.read(MOST_STANDARD_INPUT)
    more = bool(sys.stdin.buffer.read(1)) if len(data) == MOST_STANDARD_INPUT else False
    cut = f"only the first {size(MOST_STANDARD_INPUT)} of standard input are read" if more else None
    return LeftFile(None, "stdin", FileKind.LOG, len(data), None, data, cut=cut)
