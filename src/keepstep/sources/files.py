# SPDX-License-Identifier: Apache-2.0
"""What a run left on disk: find the files worth reading, and read them in bounded chunks.

A folder is walked without following link loops; what is not read is said.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from keepstep.core.blackbox import is_box
from keepstep.core.evidence import Coverage, CoverageState
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.parse.flight_recorder import looks_like_dump
from keepstep.sources.unpack import CHUNK, Damaged, TooMuch, packing, unpacked

SNIFF = 64 << 10
MOST_FILES = 20_000

_NOT_LOGS = frozenset(
    [".py", ".pyc", ".pyi", ".so", ".a", ".o", ".c", ".cc", ".cpp", ".h", ".cu", ".js", ".css", ".html", ".md", ".rst", ".ipynb", ".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".npy", ".npz", ".npz", ".h5", ".hdf5", ".keras", ".pb", ".tflite", ".onnx", ".parquet", ".arrow", ".feather", ".tfrecord", ".tfrecords", ".jpg", ".jpeg", ".png", ".gif", ".webp", ".mp4", ".wav", ".whl", ".tar", ".zip", ".jar", ".sqlite", ".db", ".lock", ".toml", ".cfg", ".ini"]
)
_NOT_FOLDERS = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", "site-packages"})


class Kind(Enum):
    LOG = "log"
    CORE = "core"
    FLIGHT_RECORDER = "flight recorder"
    BLACK_BOX = "black box"
    NOTES = "notes"
    """Evidence that keepstep itself wrote down, a JSON line each."""
    METRICS = "metrics"
    """What `keepstep run` measured, a JSON line each."""
    ARRIVALS = "arrivals"
    """When the lines of logs reached `keepstep run`."""


@dataclass(frozen=True, slots=True)
class Left:
    """One file that a run left. ``name`` is how reports call it."""

    path: Path | None
    name: str
    kind: Kind
    size: int = 0
    modified: float | None = None
    data: bytes | None = None
    """For what was read already: standard input, a client's answer."""


@dataclass(slots=True)
class Found:
    """The outcome of a search."""

    files: list[Left] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find_files(paths: list[Path]) -> Found:
    """Every file worth reading under the given paths, in a stable order."""
    found = Found()
    seen: set[tuple[int, int]] = set()
    for path in paths:
        try:
            info = path.stat()
        except OSError as error:
            if isinstance(error, FileNotFoundError) or not os.path.lexists(path):
                found.missing.append(str(path))
            else:
                found.coverage.append(_unavailable(str(path), error))
            continue
        if stat.S_ISDIR(info.st_mode):
            _walk(path, path, found, seen)
        else:
            _add(path, path.name, found, seen, asked=True)
    _unique_names(found)
    return found


def _walk(root: Path, folder: Path, found: Found, seen: set[tuple[int, int]]) -> None:
    try:
        info = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: _natural(entry.name))
    except OSError as error:
        found.coverage.append(_unavailable(str(folder), error))
        return
    key = (info.st_dev, info.st_ino)
    if key in seen:
        return
    seen.add(key)
    for entry in entries:
        if len(found.files) >= MOST_FILES:
            found.coverage.append(
                Coverage(what=str(folder), state=CoverageState.NOT_CHECKED, why=f"more than {MOST_FILES:,} files")
            )
            return
        path = Path(entry.path)
        try:
            is_folder = entry.is_dir()
        except OSError as error:
            found.coverage.append(_unavailable(str(path), error))
            continue
        if is_folder:
            if entry.name not in _NOT_FOLDERS:
                _walk(root, path, found, seen)
        elif not entry.name.startswith("."):
            _add(path, str(path.relative_to(root)), found, seen, asked=False)


def _add(path: Path, name: str, found: Found, seen: set[tuple[int, int]], *, asked: bool) -> None:
    try:
        info = path.stat()
        key = (info.st_dev, info.st_ino)
        if key in seen:
            return
        seen.add(key)
        if stat.S_ISFIFO(info.st_mode) and asked:  # a shell's <(...)
            with path.open("rb") as stream:
                data = stream.read(256 << 20)
            found.files.append(Left(None, name, Kind.LOG, len(data), None, data))
            return
        if not stat.S_ISREG(info.st_mode):
            return
        with path.open("rb") as stream:
            head = stream.read(SNIFF)
    except OSError as error:
        found.coverage.append(_unavailable(name, error))
        return
    kind = _kind(path, head)
    if kind is None:
        if asked:
            found.coverage.append(Coverage(what=name, state=CoverageState.NOT_CHECKED, why="binary, not a log, core or dump"))
        return
    if not asked and kind is Kind.LOG and path.suffix.lower() in _NOT_LOGS:
        return
    found.files.append(Left(path, name, kind, info.st_size, info.st_mtime))


def _kind(path: Path, head: bytes) -> Kind | None:
    if head[:4] == b"\x7fELF":
        return Kind.CORE if len(head) > 17 and head[16:18] in (b"\x04\x00", b"\x00\x04") else None
    if looks_like_dump(path.name, head):
        return Kind.FLIGHT_RECORDER
    if is_box(head):
        return Kind.BLACK_BOX
    if head.startswith(b'{"fact": "') and path.suffix == ".jsonl":
        return Kind.NOTES
    if _MEASURED.match(head):
        return Kind.METRICS
    if _ARRIVED.match(head):
        return Kind.ARRIVALS
    if _OF_RUN_FOLDER.match(head):
        return None
    if packing(head) or not head:
        return Kind.LOG
    if _share_of_control(head) > 0.05:
        return None
    return Kind.LOG


_OF_RUN_FOLDER = lazy_pattern(rb'\{\s*"schema":\s*"keepstep\.(?:run|report|events)/')
"""What `keepstep run` writes about a run: it quotes errors, and is none."""
_MEASURED = lazy_pattern(rb'\{"schema": "keepstep\.metrics/')
_ARRIVED = lazy_pattern(rb'\{"schema": "keepstep\.arrivals/')
_STRANGE = bytes(n for n in range(32) if n not in (7, 8, 9, 10, 12, 13, 27))


def _share_of_control(head: bytes) -> float:
    return (len(head) - len(head.translate(None, _STRANGE))) / max(1, len(head))


class Chunks:
    """The bytes of one file, unpacked, in chunks.

    ``problem`` is set when it ended too soon, ``stopped`` when it unpacks to more than is read of one file.
    """

    def __init__(self, left: Left, begin: int = 0, end: int | None = None) -> None:
        self._left = left
        self._begin = begin
        self._end = end
        self.problem: str | None = None
        self.stopped: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        if self._left.data is not None:
            data = self._left.data
            yield from _sliced(data)
            return
        assert self._left.path is not None
        try:
            with self._left.path.open("rb") as stream:
                head = stream.read(SNIFF)
                stream.seek(self._begin)
                how = packing(head) if self._begin == 0 else None
                yield from _plain(stream, self._end) if how is None else self._unpacked(stream, how)
        except OSError as error:
            self.problem = error.strerror or str(error)

    def _unpacked(self, stream: BinaryIO, how: str) -> Iterator[bytes]:
        try:
            yield from unpacked(stream, how, self._left.size)
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


def read_standard_input() -> Left:
    """All of standard input, bounded."""
    data = sys.stdin.buffer.read(2 << 30)
    return Left(None, "stdin", Kind.LOG, len(data), None, data)


def _unavailable(what: str, error: OSError) -> Coverage:
    return Coverage(what=what, state=CoverageState.UNAVAILABLE, why=error.strerror or str(error))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part[:4000]), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def _unique_names(found: Found) -> None:
    """Two files of one name (given from several folders) are told apart by their folder."""
    names = Counter(left.name for left in found.files)
    for index, left in enumerate(found.files):
        if names[left.name] > 1 and left.path is not None:
            found.files[index] = Left(left.path, str(left.path), left.kind, left.size, left.modified, left.data)
