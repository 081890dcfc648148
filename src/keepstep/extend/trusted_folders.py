# SPDX-License-Identifier: Apache-2.0
"""The user's decisions to run the Python rules of a folder: for one path, and for its files as they are.

They are kept in the user's own settings, which no other user may read or change. Changing, adding or removing a file
requires a new decision.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keepstep.base.safe_files import make_private, open_regular, stranger, write_whole
from keepstep.errors import UserError
from keepstep.extend.rule_folders import user_folder

FILE, SCHEMA = "trusted.json", "keepstep.trust/1"
MOST_FILES, MOST_BYTES, DEEPEST = 500, 8 << 20, 20


class TooMuchPython(Exception):
    """More Python than a person would read."""


def python_files(folder: Path, unreadable: Callable[[OSError], None] | None = None) -> dict[str, bytes]:
    """All Python in a folder and below, by its name there. Links are left out. Raises ``TooMuchPython``.

    ``unreadable`` is called with what cannot be read; without it that raises ``OSError``: trust needs all files.
    """
    tell = unreadable or _raise
    found: dict[str, bytes] = {}
    room = MOST_BYTES
    for where, folders, names in os.walk(folder, onerror=tell):
        if len(Path(where).relative_to(folder).parts) > DEEPEST:
            raise TooMuchPython(f"more than {DEEPEST} nested folders")
        folders.sort()
        for name in sorted(names):
            path = Path(where) / name
            if not name.endswith(".py") or path.is_symlink():
                continue
            try:
                with open_regular(path, follow=False) as stream:
                    data = stream.read(room + 1)
            except OSError as error:
                tell(OSError(error.errno, error.strerror, str(path)))
                continue
            room -= len(data)
            if room < 0 or len(found) >= MOST_FILES:
                raise TooMuchPython(f"more than {MOST_FILES} Python files or {MOST_BYTES >> 20} MB of them")
            found[str(path.relative_to(folder))] = data
    return found


def _raise(error: OSError) -> None:
    raise error


def digest(files: dict[str, bytes]) -> str:
    """One hash over the names and the contents."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{hashlib.sha256(files[name]).hexdigest()} {os.fsencode(name).hex()}\n".encode())
    return whole.hexdigest()


@dataclass(frozen=True)
class TrustDecision:
    """One decision: for which files, and when."""

    digest: str
    at: float


def decisions() -> dict[str, TrustDecision]:
    """By the real path of the folder. None if the file is missing, damaged, or open to other users."""
    home = user_folder()
    if home is None:
        return {}
    try:
        with open_regular(home / FILE) as stream:
            info = os.fstat(stream.fileno())
            if stranger(info) is not None or info.st_uid != os.geteuid():
                return {}
            said = json.loads(stream.read(MOST_BYTES))
        if said["schema"] != SCHEMA:
            return {}
        return {
            str(path): TrustDecision(str(each["digest"]), float(each["at"])) for path, each in said["folders"].items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def why_not(folder: Path, files: dict[str, bytes]) -> str | None:
    """Why these files do not run; None if the user trusts them."""
    made = decisions().get(str(folder))
    if made is None:
        return "you have not trusted this folder"
    return None if made.digest == digest(files) else "they have changed since you trusted them"


def trust(folder: Path) -> dict[str, bytes]:
    """Record the decision to run what is in the folder now, and return those files."""
    try:
        files = python_files(folder)
    except OSError as error:
        raise UserError(f"cannot read {error.filename or folder}: {error.strerror or error}") from error
    except TooMuchPython as error:
        raise UserError(f"{folder} holds {error}", hint="name the folder that holds only the rules") from error
    if not files:
        raise UserError(f"no Python files in {folder}", hint="TOML signatures need no trust")
    _save({**decisions(), str(folder): TrustDecision(digest(files), time.time())})
    return files


def forget(folder: Path) -> bool:
    """Forget a decision. Returns whether there was one."""
    made = decisions()
    if made.pop(str(folder), None) is None:
        return False
    _save(made)
    return True


def _save(made: dict[str, TrustDecision]) -> None:
    home = user_folder()
    if home is None:
        raise UserError("no folder for your settings was found", hint="set HOME or XDG_CONFIG_HOME")
    folders = {path: {"digest": each.digest, "at": round(each.at)} for path, each in sorted(made.items())}
    try:
        make_private(home)
        write_whole(home / FILE, (json.dumps({"schema": SCHEMA, "folders": folders}, indent=1) + "\n").encode())
    except OSError as error:
        raise UserError(f"cannot write {home / FILE}: {error.strerror or error}") from error
