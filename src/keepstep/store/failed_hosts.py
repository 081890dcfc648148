# SPDX-License-Identifier: Apache-2.0
"""A small local record of which hosts failed first, in the last failures examined here."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from keepstep.base import foreign_json
from keepstep.base.safe_files import make_private, write_whole

MOST = 50
LONGEST_LINE = 500


def where() -> Path:
    """The user's own state folder."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "keepstep" / "hosts.jsonl"


def remember(host: str, cause: str, at: float, path: Path | None = None) -> None:
    """Note that ``host`` failed first. Does nothing if it cannot be written."""
    path = path or where()
    with contextlib.suppress(OSError, RuntimeError):
        lines = path.read_text(errors="replace").splitlines()[-MOST + 1 :] if path.exists() else []
        lines.append(json.dumps({"host": host[:200], "cause": cause[:100], "at": round(at)}))
        make_private(path.parent)
        write_whole(path, ("\n".join(lines) + "\n").encode())


def remembered(path: Path | None = None) -> list[tuple[str, str]]:
    """Host and cause of the last failures, oldest first; unreadable entries are left out."""
    path = path or where()
    found = []
    with contextlib.suppress(OSError, RuntimeError):
        for line in path.read_text(errors="replace").splitlines()[-MOST:]:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = foreign_json.loads(line[:LONGEST_LINE])
                found.append((str(entry["host"]), str(entry["cause"])))
    return found
