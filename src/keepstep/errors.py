# SPDX-License-Identifier: Apache-2.0
"""The errors that keepstep raises, each with a hint of what to do.

KeepstepError
├── UserError       the call is wrong: a bad path, option or file (exit status 2)
├── Unavailable     something could not be examined: a client, permission or file is missing (exit status 3)
└── OutOfStep       raised in a training by the guard: continuing would hang it or spoil its results
"""

from __future__ import annotations

import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT)


class KeepstepError(Exception):
    """The base of all errors. ``hint`` says what to try next."""

    exit_status = 3

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UserError(KeepstepError):
    """A mistake in the call; never shown with a traceback."""

    exit_status = 2


class Unavailable(KeepstepError):
    """Could not look."""

    exit_status = 3


class OutOfStep(KeepstepError):
    """The ranks are about to do different things. The guard raises no other exception into a training."""

    exit_status = 1


def cannot_write(path: str | os.PathLike[str], error: OSError) -> KeepstepError:
    """A file that the user asked for: a full disk is no mistake in the call, a wrong path is."""
    said = f"cannot write {os.fspath(path)}: {error.strerror or error}"
    if error.errno in FULL:
        return Unavailable(said, hint="give a path on another disk, or free some space")
    return UserError(said, hint="give a path in a folder that exists and that you may write to")
