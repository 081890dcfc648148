# SPDX-License-Identifier: Apache-2.0
"""What is slow to compute, kept in the user's cache folder for the next start. Safe to lose at any time.

A file is believed only if it belongs to the user, no other user may write it, and its seal matches the requested key
and every byte after it. If nothing can be kept, nothing is.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from keepstep.base.safe_files import make_private

LARGEST = 64 << 20
MOST_OF_A_NAME = 4
"""Versions of keepstep, and projects with their own signatures, that share one machine."""


class Kept:
    """A folder of named results, the latest few of each name."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str, key: str) -> bytes | None:
        """What was kept under the name, if for this very key."""
        if self._folder is None:
            return None
        try:
            with (self._folder / _file(name, key)).open("rb") as stream:
                info = os.fstat(stream.fileno())
                if not _is_ours(info) or info.st_size > LARGEST:
                    return None
                data = stream.read(LARGEST)
        except OSError:
            return None
        seal, _, body = data.partition(b"\n")
        return body if seal == _seal(name, key, body) else None

    def put(self, name: str, key: str, body: bytes) -> None:
        """Keep it, whole or not at all: other processes may be reading and writing the same name."""
        if self._folder is None:
            return
        import tempfile

        try:
            make_private(self._folder)
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self._folder)
            try:
                with open(handle, "wb") as stream:
                    stream.write(_seal(name, key, body) + b"\n" + body)
                os.replace(temporary, self._folder / _file(name, key))
            except OSError:
                os.unlink(temporary)
            self._forget_oldest(name)
        except OSError:
            return

    def _forget_oldest(self, name: str) -> None:
        assert self._folder is not None
        files = [path for path in self._folder.glob(f"{name}-*") if path.is_file()]
        for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)[:-MOST_OF_A_NAME]:
            path.unlink(missing_ok=True)


def user_folder() -> Path | None:
    """The user's cache folder, if there is one."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if base:
        return Path(base) / "keepstep"
    try:
        return Path.home() / ".cache" / "keepstep"
    except RuntimeError:
        return None


def _file(name: str, key: str) -> str:
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _is_ours(info: os.stat_result) -> bool:
    if os.name != "posix":
        return True
    return info.st_uid == os.getuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _seal(name: str, key: str, body: bytes) -> bytes:
    return hashlib.sha256(f"{name}\n{key}\n".encode() + body).hexdigest().encode()
