# SPDX-License-Identifier: Apache-2.0
"""Find what there is to read below the given paths: files, shards that an index names, folders that are one store."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from keepstep.base.safe_files import NOT_REGULAR, open_regular
from keepstep.check.data.find.indexes import indexed, is_index
from keepstep.check.data.inside import LEADS_OUT, leads_out
from keepstep.check.data.readers.source import is_remote
from keepstep.check.data.units import DataUnit

Left = tuple[str, str, str]
"""``missing``, ``unreadable``, ``library`` (one is not installed), ``link`` or ``special``; the path; and why."""

_TEXTS = frozenset({"md", "rst", "txt", "log", "json", "yaml", "yml", "toml", "cfg", "ini", "html", "css", "meta"})
_PROGRAMS = frozenset({"py", "pyc", "pyi", "ipynb", "sh", "c", "cc", "cpp", "h", "cu", "so", "a", "o", "js", "whl"})
_SIDE_FILES = frozenset({"pb", "pbtxt", "lock", "crc", "sha256", "md5", "idx", "zip"})
_MODELS = frozenset({"pt", "pth", "ckpt", "pkl", "pickle", "onnx"})
_NOT_DATA = _TEXTS | _PROGRAMS | _SIDE_FILES | _MODELS
"""Endings of files that accompany data or programs."""
_NOT_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".cache", ".ipynb_checkpoints"}
)
_ZARR = frozenset({".zarray", ".zgroup", "zarr.json", ".zmetadata"})
_SPECIAL = _ZARR | {"index.json"}


class At:
    """Where a search is, for a thread that watches it."""

    path = ""


def walk(
    paths: list[str], at: At | None = None, skip: frozenset[str] = frozenset(), *, follow: bool = False
) -> Iterator[int | DataUnit | Left]:
    """Everything below the paths, in a stable order, each path after its number; what is named is always taken.

    ``skip``: files and folders that are not looked at, by their absolute names. ``follow``: also what links lead to
    outside the paths, and folders behind links.
    """
    at = at or At()
    given = [each for path in paths for each in _local(path)]
    for number, path in enumerate(paths):
        yield number
        at.path = path
        if is_remote(path) and not _is_file_url(path):
            yield from _remote(path)
            continue
        for each in _local(path):
            try:
                info = os.stat(each)
            except OSError as error:
                yield ("missing" if isinstance(error, FileNotFoundError) else "unreadable", each, error.strerror or "")
                continue
            if stat.S_ISDIR(info.st_mode):
                yield from _Folders(each, given, at, skip, follow).walk()
            elif stat.S_ISREG(info.st_mode):
                yield DataUnit(each, each, info.st_size, info.st_mtime_ns, follow=follow)
            else:
                yield ("special", each, NOT_REGULAR)


def _is_file_url(path: str) -> bool:
    return path.startswith(("file://", "local://")) and "::" not in path


def _local(path: str) -> list[str]:
    """The local paths that a path means: itself, or those of a file URL, which may be a pattern. None of other URLs."""
    if not is_remote(path):
        return [path]
    if not _is_file_url(path):
        return []
    plain = path.partition("://")[2]
    return sorted(glob.glob(plain)) or [plain] if _is_pattern(plain) else [plain]


class _Folders:
    """One folder that was given and those below it. A search never leaves what was given, unless told to follow."""

    def __init__(self, root: str, given: list[str], at: At, skip: frozenset[str], follow: bool) -> None:
        self._root, self._given, self._at, self._skip, self._follow = root, given, at, skip, follow
        self._waiting = [root]
        self._seen: set[tuple[int, int]] = set()

    def walk(self) -> Iterator[DataUnit | Left]:
        while self._waiting:
            here = self._at.path = self._waiting.pop()
            if self._skip and os.path.abspath(here) in self._skip:
                continue
            try:
                files, folders, links = _listed(here)
                if self._follow and not self._is_new(here):
                    continue
            except OSError as error:
                yield ("unreadable", here, error.strerror or "")
                continue
            whole_store = yield from self._one(here, files, links)
            if whole_store:
                continue
            self._waiting += [os.path.join(here, name) for name in reversed(folders) if name not in _NOT_FOLDERS]

    def _is_new(self, folder: str) -> bool:
        """Links may lead in circles."""
        info = os.stat(folder)
        key = (info.st_dev, info.st_ino)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _one(self, here: str, files: list[str], links: set[str]) -> Generator[DataUnit | Left, None, bool]:
        """What is in one folder. Returns whether the folder is one store, with all that is below it."""
        special = {name for name in files if name in _SPECIAL}
        for name in sorted(special):
            path = os.path.join(here, name)
            if name in links and self._home(path) is None:
                special.discard(name)
                yield ("link", path, LEADS_OUT)
            elif not os.path.isfile(path):
                special.discard(name)
                yield ("special", path, NOT_REGULAR)
        if special & _ZARR and (".zarray" in special or _is_zarr_array(here, special)):
            yield _store(here, self._root, follow=self._follow)
            return True
        taken: set[str] = set()
        if "index.json" in special and is_index(path := os.path.join(here, "index.json")):
            for unit in indexed(path, self._root):
                taken.add(os.path.basename(unit.path))
                home = self._root if unit.kind in ("missing", "index") else self._home(unit.path)
                yield replace(unit, follow=self._follow, root=home or unit.root, kind=unit.kind if home else "outside")
        for name in files:
            if name not in taken and not name.startswith((".", "_")) and _ending(name) not in _NOT_DATA:
                self._at.path = path = os.path.join(here, name)
                if not self._skip or os.path.abspath(path) not in self._skip:
                    yield from self._file(path, is_link=name in links)
        return False

    def _home(self, path: str) -> str | None:
        """The given path that a path leads into; None: it leads out of all."""
        self._at.path = path
        if self._follow:
            return self._root
        return next((root for root in (self._root, *self._given) if not leads_out(path, root)), None)

    def _file(self, path: str, *, is_link: bool) -> Iterator[DataUnit | Left]:
        """A unit, or why it is none; nothing for a folder that is followed."""
        root = self._root
        try:
            if is_link:
                home = self._home(path)
                if home is None:
                    yield ("link", path, LEADS_OUT)
                    return
                root = home
            info = os.stat(path)
        except OSError as error:
            yield ("unreadable", path, error.strerror or "")
            return
        if stat.S_ISREG(info.st_mode):
            yield DataUnit(path, root, info.st_size, info.st_mtime_ns, follow=self._follow)
        elif not stat.S_ISDIR(info.st_mode):
            yield ("special", path, NOT_REGULAR)
        elif self._follow:
            self._waiting.append(path)
        else:
            yield ("link", path, "a link to a folder")


def _listed(folder: str) -> tuple[list[str], list[str], set[str]]:
    """The names of the files in a folder, those of the folders, and which of the files are links. Only names."""
    files: list[str] = []
    folders: list[str] = []
    links: set[str] = set()
    with os.scandir(folder) as listing:  # there may be millions
        for entry in listing:
            (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
            if entry.is_symlink():
                links.add(entry.name)
    return sorted(files), sorted(folders), links


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def _is_zarr_array(folder: str, names: set[str]) -> bool:
    """Of Zarr 3, whose groups have the same file as its arrays."""
    if "zarr.json" not in names:
        return False
    try:
        with open_regular(os.path.join(folder, "zarr.json")) as stream:
            return b'"array"' in stream.read(1 << 20)
    except OSError:
        return False


def _store(folder: str, root: str, *, follow: bool) -> DataUnit:
    """A Zarr array: as large as its chunks, as new as the newest of them."""
    size = newest = 0
    for here, _, files in os.walk(folder):
        for name in files:
            try:
                info = os.stat(os.path.join(here, name))
            except OSError:
                continue
            size, newest = size + info.st_size, max(newest, info.st_mtime_ns)
    return DataUnit(folder, root, size, newest, "zarr", follow=follow)


def _is_pattern(path: str) -> bool:
    """No shell expands what is in an URL."""
    return any(sign in path for sign in "*?[")


def _remote(path: str) -> Iterator[DataUnit | Left]:
    """Files behind an URL."""
    try:
        import fsspec

        system, inner = fsspec.core.url_to_fs(path)
        found = system.glob(inner, detail=True) if _is_pattern(inner) else system.find(inner, detail=True)
        if not found:
            system.info(inner)
    except ImportError as error:
        yield ("library", path, f"install {error.name}: pip install {error.name}" if error.name else str(error)[:200])
        return
    except FileNotFoundError as error:
        why = error.__cause__
        if isinstance(why, OSError) and not isinstance(why, FileNotFoundError):  # a server that does not answer
            yield ("unreadable", path, f"{type(why).__name__}: {str(why)[:200]}")
        else:
            yield ("missing", path, "it does not exist")
        return
    except Exception as error:  # whatever a remote file system raises
        yield ("unreadable", path, f"{type(error).__name__}: {str(error)[:200]}")
        return
    _, chain, outer = path.partition("::")  # zip://inside::s3://bucket/archive.zip
    for name in sorted(name for name in found if found[name].get("type") != "directory"):
        info = found[name]
        base = name.rpartition("/")[2]
        if base.startswith((".", "_")) or (_ending(base) in _NOT_DATA and name != inner):
            continue
        yield DataUnit(
            f"{system.unstrip_protocol(name)}{chain}{outer}", path, int(info.get("size") or 0), _version(info)
        )


def _version(info: Mapping[str, Any]) -> int:
    """A number that changes when a remote file does: its time, or what stands for its content. 0 if there is none."""
    when = info.get("mtime") or info.get("LastModified") or info.get("created")
    if isinstance(when, datetime):
        return int(when.timestamp() * 1e9)
    if isinstance(when, int | float):
        return int(when * 1e9)
    mark = next((info[key] for key in ("ETag", "etag", "CRC", "md5Hash", "checksum") if info.get(key)), None)
    return int.from_bytes(hashlib.sha256(str(mark).encode()).digest()[:7], "little") if mark is not None else 0
