# SPDX-License-Identifier: Apache-2.0
"""The manifest: size, time, hash and result of every file read, one JSON line each, written as the check goes on.

A second check reads only what changed, an interrupted one goes on, and a file that differs from its hash is noticed.
Memory holds one number per file: the lines stay on disk.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.safe_files import append, make_private, open_private, open_regular, private_folder, write_whole
from keepstep.check.data.readers.source import is_remote
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead, looked_from, to_plain
from keepstep.errors import UserError
from keepstep.store.user_cache import user_folder

SCHEMA = "keepstep.data-manifest/1"
LONGEST_LINE = 4 << 20
WRITE_EVERY_S = 1.0
WRITE_EVERY = 1000
MOST_STALE = 2
"""A manifest with more than this many lines per file is written anew, without the old ones."""
_BEGIN = b'{"file": "'
_DECODER = json.JSONDecoder()


def usual_place(paths: list[str]) -> Path | None:
    """In the user's cache folder, one for each set of paths; None if there is no such folder."""
    folder = user_folder()
    if folder is None:
        return None
    key = hashlib.sha256("\n".join(sorted(_absolute(path) for path in paths)).encode("utf-8", "replace")).hexdigest()
    return folder / "data" / f"{key[:16]}.jsonl"


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


class Manifest:
    """What earlier checks found, and what this one finds."""

    def __init__(self, path: Path | None, asked: ReadRequest) -> None:
        self.path = path
        how = {**to_plain(replace(asked, work=1)), "lengths": True}  # more work finds the same; earlier ones had none
        self._how = json.dumps(how, sort_keys=True)
        self._places: dict[int, int] = {}
        self._stream: Any = None
        self._waiting: list[bytes] = []
        self._torn = False
        self._wrote_at = 0.0
        if path is not None and self._load(path) > MOST_STALE * len(self._places) + 1000:
            self._shorten(path)

    def _load(self, path: Path) -> int:
        """Where each file's last line is. A torn line, or one of another program, is passed over. Returns the lines."""
        try:
            self._stream = open_regular(path)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise UserError(f"the manifest {path} cannot be read: {error.strerror}") from error
        first = self._stream.readline(LONGEST_LINE)
        if SCHEMA.encode() not in first:
            raise UserError(f"{path} is not a manifest of keepstep", hint="give --manifest another file")
        place, lines = len(first), 0
        while line := self._stream.readline(LONGEST_LINE):
            if (name := _file(line)) is not None:
                self._places[hash(name)] = place
            place += len(line)
            lines += 1
            self._torn = not line.endswith(b"\n")
        return lines

    def _shorten(self, path: Path) -> None:
        """Keep only the last line about each file: checks only ever add lines."""
        fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        places: dict[int, int] = {}
        try:
            with os.fdopen(open_private(fresh, os.O_RDWR | os.O_EXCL), "w+b") as out:
                out.write(json.dumps({"schema": SCHEMA}).encode() + b"\n")
                for key, place in self._places.items():
                    places[key] = out.tell()
                    self._stream.seek(place)
                    out.write(self._stream.readline(LONGEST_LINE))
            os.replace(fresh, path)
            self._stream.close()
            self._stream, self._places, self._torn = open_regular(path), places, False
        except OSError:  # the long one will do
            fresh.unlink(missing_ok=True)

    def known(self, unit: DataUnit) -> dict[str, Any] | None:
        """The last line about this file."""
        name = _absolute(unit.path)
        place = self._places.get(hash(name))
        if place is None or self._stream is None:
            return None
        self._stream.seek(place)
        line = self._stream.readline(LONGEST_LINE)
        return _entry(line) if _file(line) == name else None

    def result(self, unit: DataUnit) -> UnitRead | None:
        """What an earlier check found, if the file has not changed since and was read in the same way."""
        if not unit.mtime_ns and is_remote(unit.path):
            return None  # nothing says whether it changed
        entry = self.known(unit)
        if entry is None or (entry.get("size"), entry.get("mtime_ns")) != (unit.size, unit.mtime_ns):
            return None
        if entry.get("how") != self._how or entry.get("about") != _mark(unit):
            return None
        try:
            looked = looked_from(entry["looked"])
            looked.digest = looked.digest or str(entry.get("digest") or "")
        except (ValueError, KeyError):
            return None
        return looked

    def add(self, unit: DataUnit, looked: UnitRead, now: float) -> None:
        """Note a result; what could not be read is not noted, so it is tried again."""
        if self.path is None or looked.unreadable or looked.unread or looked.changed or looked.missing_library:
            return
        found = to_plain(looked)
        entry = {
            "file": _absolute(unit.path),
            "size": unit.size,
            "mtime_ns": unit.mtime_ns,
            "digest": found.pop("digest", ""),
            "verdict": "bad" if len(looked.bad) else "good",
            "records": looked.records,
            "checked_at": round(now),
            "how": self._how,
            "about": _mark(unit),
            "looked": found,
        }
        self._waiting.append(json.dumps(entry).encode() + b"\n")
        if len(self._waiting) >= WRITE_EVERY or unit.size > 16 << 20 or now - self._wrote_at > WRITE_EVERY_S:
            self._wrote_at = now
            self.write()

    def write(self) -> None:
        """Put what waits on disk. A manifest that cannot be written must not end the check."""
        if self.path is None or not self._waiting:
            return
        data = (b"\n" if self._torn else b"") + b"".join(self._waiting)
        self._waiting, self._torn = [], False
        try:
            if not self.path.exists():
                make_private(self.path.parent)
                if self.path.parent.name == "data" and self.path.parent.parent == user_folder():
                    private_folder(self.path.parent)
                write_whole(self.path, json.dumps({"schema": SCHEMA}).encode() + b"\n")
            append(self.path, data)
        except OSError:
            self.path = None


def _mark(unit: DataUnit) -> str:
    """Changes when the index says something else about a shard."""
    return hashlib.sha256(unit.about.encode()).hexdigest()[:12] if unit.about else ""


def _file(line: bytes) -> str | None:
    """The file that a line is about, without reading the rest of it; None for a torn line."""
    if not line.startswith(_BEGIN) or not line.endswith(b"}\n"):
        return None
    try:
        name: str = _DECODER.raw_decode(line.decode("ascii"), len(_BEGIN) - 1)[0]
    except ValueError:
        return None
    return name


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = foreign_json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("looked"), dict) else None
