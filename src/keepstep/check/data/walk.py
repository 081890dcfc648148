# SPDX-License-Identifier: Apache-2.0
"""Find what there is to read below the given paths: files, shards that an index names, folders that are one store."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from keepstep.check.data.indexes import indexed, is_index
from keepstep.check.data.source import is_remote
from keepstep.check.data.units import Unit

Left = tuple[str, str, str]
"""``missing``, ``unreadable``, ``link`` or ``special``; the path; and why."""

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


def walk(paths: list[str]) -> Iterator[Unit | Left]:
    """Everything below the paths, in a stable order; what is named is always taken."""
    for path in paths:
        if is_remote(path):
            yield from _remote(path)
            continue
        try:
            info = os.stat(path)
        except OSError as error:
            yield ("missing" if isinstance(error, FileNotFoundError) else "unreadable", path, error.strerror or "")
            continue
        if stat.S_ISDIR(info.st_mode):
            yield from _folder(path, path)
        elif stat.S_ISREG(info.st_mode):
            yield Unit(path, path, info.st_size, info.st_mtime_ns)
        else:
            yield ("special", path, "not a regular file")


def _folder(folder: str, root: str) -> Iterator[Unit | Left]:
    """One folder, then those below it. Links are followed to files, not to folders: a search never leaves its root."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield ("unreadable", here, error.strerror or "")
            continue
        names = {entry.name for entry in entries}
        if names & _ZARR and (".zarray" in names or _is_zarr_array(here, names)):
            yield _store(here, root)
            continue
        taken: set[str] = set()
        if "index.json" in names and is_index(path := os.path.join(here, "index.json")):
            for unit in indexed(path, root):
                taken.add(os.path.basename(unit.path))
                yield unit
        below = []
        for entry in entries:
            if entry.name in taken or (entry.name == "index.json" and taken):
                continue
            for each in _entry(entry, root):
                if isinstance(each, str):
                    below.append(each)
                else:
                    yield each
        waiting += reversed(below)


def _entry(entry: os.DirEntry[str], root: str) -> Iterator[Unit | Left | str]:
    """A unit, why it is none, or a folder to go into."""
    try:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _NOT_FOLDERS:
                yield entry.path
            return
        if entry.name.startswith((".", "_")) or _ending(entry.name) in _NOT_DATA:
            return
        info = entry.stat()
    except OSError as error:
        yield ("unreadable", entry.path, error.strerror or "")
        return
    if stat.S_ISDIR(info.st_mode):
        yield ("link", entry.path, "a link to a folder")
    elif stat.S_ISREG(info.st_mode):
        yield Unit(entry.path, root, info.st_size, info.st_mtime_ns)
    else:
        yield ("special", entry.path, "not a regular file")


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def _is_zarr_array(folder: str, names: set[str]) -> bool:
    """Of Zarr 3, whose groups have the same file as its arrays."""
    if "zarr.json" not in names:
        return False
    try:
        with open(os.path.join(folder, "zarr.json"), "rb") as stream:
            return b'"array"' in stream.read(1 << 20)
    except OSError:
        return False


def _store(folder: str, root: str) -> Unit:
    """A Zarr array: as large as its chunks, as new as the newest of them."""
    size = newest = 0
    for here, _, files in os.walk(folder):
        for name in files:
            try:
                info = os.stat(os.path.join(here, name))
            except OSError:
                continue
            size, newest = size + info.st_size, max(newest, info.st_mtime_ns)
    return Unit(folder, root, size, newest, "zarr")


def _remote(path: str) -> Iterator[Unit | Left]:
    """Files behind an URL."""
    try:
        import fsspec

        system, inner = fsspec.core.url_to_fs(path)
        found = system.find(inner, detail=True)
        if not found and not system.exists(inner):
            yield ("missing", path, "it does not exist")
    except ImportError as error:
        yield ("unreadable", path, f"install {error.name or 'fsspec'}, and pip install 'keepstep[data]'")
        return
    except Exception as error:  # whatever a remote file system raises
        yield ("unreadable", path, f"{type(error).__name__}: {str(error)[:200]}")
        return
    for name in sorted(found):
        info = found[name]
        base = name.rpartition("/")[2]
        if base.startswith((".", "_")) or (_ending(base) in _NOT_DATA and name != inner):
            continue
        when = info.get("mtime") or info.get("LastModified") or info.get("created") or 0
        stamp = when.timestamp() if hasattr(when, "timestamp") else float(when) if isinstance(when, int | float) else 0
        yield Unit(system.unstrip_protocol(name), path, int(info.get("size") or 0), int(stamp * 1e9))
