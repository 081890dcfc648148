# SPDX-License-Identifier: Apache-2.0
"""Find what there is to read below the given paths: files, shards that an index names, folders that are one store."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from keepstep.check.data.find.indexes import indexed, is_index
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


def walk(paths: list[str], at: At | None = None, skip: frozenset[str] = frozenset()) -> Iterator[int | DataUnit | Left]:
    """Everything below the paths, in a stable order, each path after its number; what is named is always taken.

    ``skip``: files and folders that are not looked at, by their absolute names.
    """
    at = at or At()
    for number, path in enumerate(paths):
        yield number
        at.path = path
        if is_remote(path):
            yield from _remote(path)
            continue
        try:
            info = os.stat(path)
        except OSError as error:
            yield ("missing" if isinstance(error, FileNotFoundError) else "unreadable", path, error.strerror or "")
            continue
        if stat.S_ISDIR(info.st_mode):
            yield from _folder(path, at, skip)
        elif stat.S_ISREG(info.st_mode):
            yield DataUnit(path, path, info.st_size, info.st_mtime_ns)
        else:
            yield ("special", path, "not a regular file")


def _folder(root: str, at: At, skip: frozenset[str]) -> Iterator[DataUnit | Left]:
    """One folder, then those below it. Links are followed to files, not to folders: a search never leaves its root."""
    waiting = [root]
    while waiting:
        here = at.path = waiting.pop()
        if skip and os.path.abspath(here) in skip:
            continue
        try:
            files, folders = _listed(here)
        except OSError as error:
            yield ("unreadable", here, error.strerror or "")
            continue
        special = {name for name in files if name in _SPECIAL}
        if special & _ZARR and (".zarray" in special or _is_zarr_array(here, special)):
            yield _store(here, root)
            continue
        taken: set[str] = set()
        if "index.json" in special and is_index(path := os.path.join(here, "index.json")):
            for unit in indexed(path, root):
                taken.add(os.path.basename(unit.path))
                yield unit
        for name in files:
            if name not in taken and not name.startswith((".", "_")) and _ending(name) not in _NOT_DATA:
                at.path = path = os.path.join(here, name)
                if not skip or os.path.abspath(path) not in skip:
                    yield _file(path, root)
        waiting += [os.path.join(here, name) for name in reversed(folders) if name not in _NOT_FOLDERS]


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """The names of the files in a folder, and those of the folders. Only names: there may be millions."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as listing:
        for entry in listing:
            (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
    return sorted(files), sorted(folders)


def _file(path: str, root: str) -> DataUnit | Left:
    """A unit, or why it is none."""
    try:
        info = os.stat(path)
    except OSError as error:
        return ("unreadable", path, error.strerror or "")
    if stat.S_ISREG(info.st_mode):
        return DataUnit(path, root, info.st_size, info.st_mtime_ns)
    if stat.S_ISDIR(info.st_mode):
        return ("link", path, "a link to a folder")
    return ("special", path, "not a regular file")


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


def _store(folder: str, root: str) -> DataUnit:
    """A Zarr array: as large as its chunks, as new as the newest of them."""
    size = newest = 0
    for here, _, files in os.walk(folder):
        for name in files:
            try:
                info = os.stat(os.path.join(here, name))
            except OSError:
                continue
            size, newest = size + info.st_size, max(newest, info.st_mtime_ns)
    return DataUnit(folder, root, size, newest, "zarr")


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
