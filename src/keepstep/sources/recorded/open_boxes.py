# SPDX-License-Identifier: Apache-2.0
"""What the guards of running processes write: boxes and notes, found by the files that each process holds open."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from keepstep.sources.files.left_files import FileKind, LeftFile

MOST_OPEN = 4096
"""Descriptors looked at per process."""


def left_by(pids: Iterable[int]) -> list[LeftFile]:
    """Boxes and notes of these processes; nothing for one without a guard, or of another user."""
    found: dict[Path, FileKind] = {}
    for pid in pids:
        for path in _open_files(pid):
            name = path.name
            if name.endswith(".box") and name.startswith(f"{pid}-"):
                found[path] = FileKind.BLACK_BOX
            elif name.startswith(".") and name.endswith(".exit") and f"-{pid}-" in name:
                notes = path.with_name(f"{name[1:].removesuffix('.exit')}.notes.jsonl")
                if notes.is_file():
                    found[notes] = FileKind.NOTES
    return [LeftFile(path, path.name, kind) for path, kind in found.items()]


def _open_files(pid: int) -> Iterator[Path]:
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        for number in os.listdir(folder)[:MOST_OPEN]:
            with contextlib.suppress(OSError):
                yield Path(os.readlink(folder / number))
