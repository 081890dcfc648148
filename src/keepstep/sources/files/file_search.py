# SPDX-License-Identifier: Apache-2.0
"""Find the files worth reading in what was given, without ever leaving it.

Links that lead out are not followed, pipes and devices in a folder are not opened, and the kernel's own files are not
logs. What was named on the command line is always read. What is left out is listed as coverage; where it may hold a
log, as partly checked: then nothing is called healthy.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.safe_files import open_regular
from keepstep.base.wording import count, size
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.parse.scan.lines.writer import identify
from keepstep.signals.box_files import memory_of
from keepstep.sources.files import inside_given
from keepstep.sources.files.holes import data_in, stored
from keepstep.sources.files.left_files import GAPS, SNIFF, FileKind, LeftFile, kind_of

MOST_FILES = 20_000
"""Of those that folders hold. Files that look like logs of ranks are taken first."""
MOST_LISTED = 500_000
MOST_PIPED = 256 << 20
MOST_NAMED = 5
"""How many of the files left out are named."""

_NOT_LOGS = frozenset(
    """
    .py .pyc .pyi .so .a .o .c .cc .cpp .h .cu .js .css .html .md .rst .ipynb .pt .pth .bin .ckpt .safetensors .npy
    .npz .npz .h5 .hdf5 .keras .pb .tflite .onnx .parquet .arrow .feather .tfrecord .tfrecords .jpg .jpeg .png .gif
    .webp .mp4 .wav .whl .tar .zip .jar .sqlite .db .lock .toml .cfg .ini .tiles
    """.split()
)
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip", ".7z", ".rar")
_OF_LOGS = lazy_pattern(r"(?i)logs?(?![a-z])|rank|worker|stdout|stderr|(?<![a-z])(?:out|err)(?![a-z])")
_NOT_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", "site-packages"}
)


@dataclass(slots=True)
class FoundFiles:
    """The result of a search."""

    files: list[LeftFile] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find_files(paths: list[Path], *, follow: bool = False, own_links: bool = False) -> FoundFiles:
    """Every file worth reading in the given paths, in a stable order.

    ``follow``: also what links lead to outside the paths. ``own_links``: also boxes and cores that links lead to, where
    this user made the links just now.
    """
    found = FoundFiles()
    search = _FileSearch(found, [os.path.realpath(path) for path in paths], follow, own_links)
    for path in paths:
        try:
            info = path.stat()
        except OSError as error:
            if isinstance(error, FileNotFoundError) or not os.path.lexists(path):
                found.missing.append(str(path))
            else:
                found.coverage.append(_unread(str(path), error))
            continue
        if stat.S_ISDIR(info.st_mode):
            search.walk(path)
        elif stat.S_ISFIFO(info.st_mode):  # a shell's <(...)
            _add_pipe(path, found)
        else:
            search.add_asked(path)
    search.choose()
    found.coverage += search.left_out()
    _unique_names(found)
    return found


def _add_pipe(path: Path, found: FoundFiles) -> None:
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_PIPED)
            more = stream.read(1)
    except OSError as error:
        found.coverage.append(_unread(path.name, error))
        return
    cut = f"only the first {size(MOST_PIPED)} of a pipe are read" if more else None
    found.files.append(LeftFile(None, path.name, FileKind.LOG, len(data), None, data, cut=cut))


class _FileSearch:
    """One walk through everything that was given. It stays inside, and records what it left out."""

    def __init__(self, found: FoundFiles, roots: list[str], follow: bool, own_links: bool) -> None:
        self._found, self._roots, self._follow, self._own_links = found, roots, follow, own_links
        self._walked: list[LeftFile] = []
        self._archives: list[str] = []
        self._seen: set[tuple[int, int]] = set()
        self._links: list[str] = []
        self._logs_behind_links = False
        self._special: list[str] = []
        self._kernels: list[str] = []

    def left_out(self) -> list[Coverage]:
        """What was found and, because of its kind or place, not read."""
        state = CoverageState.PARTLY if self._logs_behind_links else CoverageState.NOT_CHECKED
        of_logs = any(_OF_LOGS.search(os.path.basename(name)) for name in self._archives)
        told = (
            (
                self._archives,
                "archive",
                "archives",
                "not opened; unpack what holds logs",
                CoverageState.PARTLY if of_logs else CoverageState.NOT_CHECKED,
            ),
            (self._links, "link out of the folder", "links out of the folder", "not followed; --follow does", state),
            (
                self._special,
                "pipe, socket or device",
                "pipes, sockets and devices",
                "never opened in a folder",
                CoverageState.NOT_CHECKED,
            ),
            (
                self._kernels,
                "kernel folder",
                "kernel folders",
                "/proc, /sys and /dev hold no logs",
                CoverageState.NOT_CHECKED,
            ),
        )
        return [
            Coverage(what=f"{count(len(names), one, many)} ({some(names)})", state=state, why=why)
            for names, one, many, why, state in told
            if names
        ]

    def walk(self, root: Path) -> None:
        """A folder and everything below it, however deep."""
        ahead = [self._entries(root)]
        while ahead:
            path = next(ahead[-1], None)
            if path is None:
                ahead.pop()
            elif len(self._walked) >= MOST_LISTED:
                why = f"more than {MOST_LISTED:,} files; the rest was not listed"
                self._found.coverage.append(Coverage(what=str(path.parent), state=CoverageState.PARTLY, why=why))
                return
            elif self._enter(root, path):
                ahead.append(self._entries(path))

    def choose(self) -> None:
        """Of too many files in folders, the most promising."""
        if len(self._walked) <= MOST_FILES:
            return
        out = {id(left) for left in sorted(self._walked, key=promise)[MOST_FILES:]}
        self._found.files = [left for left in self._found.files if id(left) not in out]
        what = f"{len(out):,} of {len(self._walked):,} files"
        why = f"more than {MOST_FILES:,}; those that look like logs of ranks were read first"
        self._found.coverage.append(Coverage(what=what, state=CoverageState.PARTLY, why=why))

    def _entries(self, folder: Path) -> Iterator[Path]:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._found.coverage.append(_unread(str(folder), error))
            return
        try:
            info, place = os.fstat(handle), inside_given.place_of(handle, folder)
            key = (info.st_dev, info.st_ino)
            if key in self._seen or not self._may_read(place, info.st_dev, str(folder)):
                return
            self._seen.add(key)
            with os.scandir(handle) as listed:
                entries = sorted((entry.name for entry in listed), key=_natural)
        except OSError as error:
            self._found.coverage.append(_unread(str(folder), error))
            return
        finally:
            os.close(handle)
        yield from (folder / name for name in entries)

    def _enter(self, root: Path, path: Path) -> bool:
        """Take it as what it is. Returns whether it is a folder to walk."""
        name = str(path.relative_to(root))
        try:
            info = path.lstat()
            is_link = stat.S_ISLNK(info.st_mode)
            if is_link and path.name.startswith("."):
                return False
            if is_link and not self._allowed(os.path.realpath(path)):
                self._leave_or_take_own(path, name, info.st_uid)
                return False
            if is_link:
                info = path.stat()
        except OSError as error:
            self._found.coverage.append(_unread(name, error))
            return False
        if stat.S_ISDIR(info.st_mode):
            return path.name not in _NOT_FOLDERS
        if path.name.startswith("."):
            return False
        if path.name == GAPS:
            why = "the disk was full; some of the ranks' output and keepstep's notes is missing"
            self._found.coverage.append(Coverage(what="part of the recording", state=CoverageState.PARTLY, why=why))
        elif stat.S_ISREG(info.st_mode):
            if not self._add(path, name, asked=False) and path.name.lower().endswith(_ARCHIVES):
                self._archives.append(name)
        else:
            self._special.append(name)
        return False

    def _allowed(self, place: str) -> bool:
        return self._follow or inside_given.is_inside(place, self._roots)

    def _leave_or_take_own(self, path: Path, name: str, owner: int) -> None:
        """A link that leads out: only followed to a box in keepstep's memory, or where we made the link ourselves."""
        try:
            info = path.stat()
        except OSError as error:
            self._found.coverage.append(_unread(name, error))
            return
        wanted = FileKind.BLACK_BOX if path.suffix == ".box" else FileKind.CORE if path.parent.name == "cores" else None
        owners = frozenset((owner, os.geteuid()))
        memory = [str(memory_of(user)) for user in owners]
        if wanted is FileKind.BLACK_BOX and inside_given.is_inside(os.path.realpath(path), memory):
            made_by_us = True
        else:
            made_by_us = self._own_links and wanted is not None
        if made_by_us and stat.S_ISREG(info.st_mode) and self._add(path, name, asked=False, own=_Own(wanted, owners)):
            return
        self._links.append(name)
        self._logs_behind_links |= stat.S_ISREG(info.st_mode) and path.suffix.lower() not in _NOT_LOGS

    def add_asked(self, path: Path) -> None:
        """A file that was named."""
        self._add(path, path.name, asked=True)

    def _add(self, path: Path, name: str, *, asked: bool, own: _Own | None = None) -> bool:
        """Whether it is now among the files. ``own``: it leads out of the folder; taken only if keepstep made it."""
        found = self._found
        try:
            with open_regular(path) as stream:
                info, place = os.fstat(stream.fileno()), inside_given.place_of(stream.fileno(), path)
                key = (info.st_dev, info.st_ino)
                if key in self._seen:
                    return True
                if own is not None and info.st_uid not in own.owners:
                    return False
                if not asked and own is None and not self._may_read(place, info.st_dev, name):
                    return False
                kind = kind_of(path, stream.read(SNIFF)) or _log_with_holes(path, stream, info)
        except OSError as error:
            found.coverage.append(_unread(name, error))
            return False
        if own is not None and kind is not own.kind:
            return False
        self._seen.add(key)
        if kind is FileKind.DOCUMENT:
            kind = FileKind.LOG if asked else None
        if kind is None:
            if asked:
                found.coverage.append(
                    Coverage(what=name, state=CoverageState.NOT_CHECKED, why="binary, not a log, core or dump")
                )
            return False
        if not asked and kind is FileKind.LOG and path.suffix.lower() in _NOT_LOGS:
            return False
        same = (
            key if kind is not FileKind.BLACK_BOX else None
        )  # a copy may replace the link; its reader checks the format
        left = LeftFile(path, name, kind, info.st_size, info.st_mtime, same=same, stored=stored(info))
        found.files.append(left)
        if not asked:
            self._walked.append(left)
        return True

    def _may_read(self, place: str, device: int, name: str) -> bool:
        """Whether what was opened is where it may be: its path may lead elsewhere since it was listed."""
        if inside_given.is_kernels(place, device, self._roots):
            self._kernels.append(name)
            return False
        if not self._allowed(place):
            self._links.append(name)
            return False
        return True


@dataclass(frozen=True)
class _Own:
    """What one of keepstep's own links leads to: which kind, and whose."""

    kind: FileKind | None
    owners: frozenset[int]


def some(names: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _unread(what: str, error: OSError) -> Coverage:
    """What is there and may hold a log, but cannot be read. A link that leads nowhere hides none."""
    gone = isinstance(error, FileNotFoundError) or os.path.splitext(what)[1].lower() in _NOT_LOGS
    state = CoverageState.UNAVAILABLE if gone else CoverageState.PARTLY
    return Coverage(what=what, state=state, why=error.strerror or str(error))


def _log_with_holes(path: Path, stream: BinaryIO, info: os.stat_result) -> FileKind | None:
    """A log of which a part was never written: it was emptied while a process wrote, or made longer than it is."""
    first = next(data_in(stream.fileno(), 0, info.st_size), None) if stored(info) < info.st_size else None
    if first is None:
        return None
    stream.seek(first[0])
    kind = kind_of(path, stream.read(min(SNIFF, first[1] - first[0])).replace(b"\0", b""))
    return kind if kind is FileKind.LOG else None


def promise(left: LeftFile) -> int:
    """How likely it tells what happened to a rank; less is likelier."""
    if left.kind is not FileKind.LOG or identify(left.name.lower()).rank is not None:
        return 0
    return 1 if _OF_LOGS.search(left.name) else 2


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def _unique_names(found: FoundFiles) -> None:
    """Distinguish files with the same name (from several folders) by their folder."""
    names = Counter(left.name for left in found.files)
    for index, left in enumerate(found.files):
        if names[left.name] > 1 and left.path is not None:
            found.files[index] = replace(left, name=str(left.path))
