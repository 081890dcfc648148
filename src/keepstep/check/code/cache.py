# SPDX-License-Identifier: Apache-2.0
"""What the files of a project say, kept by their content: a second check reads only what has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import keepstep.parse.code
from keepstep.check.code.files import ProgramFile
from keepstep.check.code.read_program import NotRead, bytes_of
from keepstep.store.user_cache import Kept, user_folder

FROM_FILES = 50
"""Fewer are read faster than a cache is."""
NAME = "code"
_LENGTH = 8


class Cache:
    """The units of the last check of the same place."""

    def __init__(self, files: Iterable[ProgramFile], kept: Kept | None = None) -> None:
        self._files = list(files)
        self._kept = kept if kept is not None else Kept(user_folder())
        self._used = len(self._files) >= FROM_FILES
        self._hashes = {each.shown: _hash(each) for each in self._files} if self._used else {}
        self._units = self._load() if self._used else {}

    def known(self) -> dict[str, bytes]:
        """By file as shown: what is known already, packed."""
        return {path: self._units[each] for path, each in self._hashes.items() if each in self._units}

    def keep(self, units: Mapping[str, bytes]) -> None:
        """Keep all of them for the next time, if any of them is new."""
        fresh = {each: units[path] for path, each in self._hashes.items() if each is not None and path in units}
        if self._used and set(fresh) - set(self._units):
            self._kept.put(NAME, self._key(), b"".join(_framed(each.encode()) + _framed(fresh[each]) for each in fresh))

    def _load(self) -> dict[str | None, bytes]:
        body = self._kept.get(NAME, self._key()) or b""
        pieces, at = [], 0
        while at < len(body):
            start = at + _LENGTH
            at = start + int.from_bytes(body[at:start], "little")
            pieces.append(body[start:at])
        return {each.decode("ascii", "replace"): unit for each, unit in zip(pieces[::2], pieces[1::2], strict=False)}

    def _key(self) -> str:
        return f"{_version()} {self._files[0].path.resolve().parent if self._files else ''}"


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "little") + data


def _hash(file: ProgramFile) -> str | None:
    """Of all that decides what the file says: its name in the project, too."""
    try:
        data = bytes_of(file.path)
    except NotRead:
        return None
    return hashlib.sha256(f"{file.module} {file.is_package}\n".encode() + data).hexdigest()


def _version() -> str:
    """Of the reader: what another one found out is not believed."""
    folder = Path(keepstep.parse.code.__path__[0])
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
