# SPDX-License-Identifier: Apache-2.0
"""The run's status in a file, for scripts whose launcher has another: srun passes on that of an agent that was lost."""

from __future__ import annotations

from pathlib import Path

from keepstep.base.safe_files import write_whole
from keepstep.errors import UserError


def clear(path: Path) -> None:
    """Remove what an earlier run has left, so no script takes its status for this run's. Raises `UserError`."""
    try:
        write_whole(path, b"")  # shows now, not in hours, whether it can be written
        path.unlink()
    except OSError as error:
        raise UserError(
            f"--status-file {path} cannot be written: {error.strerror}", hint="name a file in a folder that exists"
        ) from error


def write(path: Path, status: int) -> str | None:
    """Whole or not at all: a script that reads half of it would be misled. Returns what failed."""
    try:
        write_whole(path, f"{status}\n".encode())
    except OSError as error:
        return f"the status {status} could not be written to {path}: {error.strerror}"
    return None
