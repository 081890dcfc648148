# SPDX-License-Identifier: Apache-2.0
"""What the script may not do in a dry run: change a file of the user's, reach a network, leave a process behind.

Where the kernel lets a user have namespaces, folders are seen through a layer that is thrown away, all else is
read-only, and there is no network. Elsewhere hooks of the interpreter refuse what would write or connect.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from keepstep.base import namespaces

NAMESPACES = "namespaces"
HOOKS = "hooks"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    f"os.{name}"
    for name in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "truncate", "chmod", "chown", "utime")
)
_PROCESSES = frozenset(
    ("subprocess.Popen", *(f"os.{name}" for name in ("fork", "forkpty", "posix_spawn", "exec", "spawn", "system")))
)
_CONNECTS = frozenset(f"socket.{name}" for name in ("connect", "bind", "sendto", "sendmsg"))
HARMLESS = ("/dev/null", "/dev/tty", "/dev/shm/")


def enter(scratch: str) -> str:
    """Confine this process, which has no threads yet. Returns how."""
    try:
        if os.environ.get("KEEPSTEP_MEMORY_CONFINE") == HOOKS:
            raise OSError("namespaces are not wanted")
        namespaces.enter(scratch)
        sys.addaudithook(_refuse_sockets_of_others)
        return NAMESPACES
    except OSError:
        namespaces.end_with_parent()
        tempfile.tempdir = scratch
        os.environ["TMPDIR"] = scratch
        sys.addaudithook(_refuser(os.path.realpath(scratch) + os.sep))
        return HOOKS


def _refuse_sockets_of_others(event: str, arguments: tuple[Any, ...]) -> None:
    """There is no network, but a socket in a folder is still there."""
    if event != "socket.connect" or not isinstance(arguments[1], str | bytes):
        return
    if not os.path.realpath(os.fsdecode(arguments[1])).startswith(tempfile.gettempdir() + os.sep):
        raise PermissionError("the dry run of keepstep check memory does not connect")


def _refuser(scratch: str) -> Any:
    """The hook that refuses. ``scratch`` ends with a slash."""

    def is_free(path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a descriptor that is open already
        name = os.path.realpath(os.fsdecode(path))
        return name.startswith((scratch, *HARMLESS)) or name in HARMLESS

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CONNECTS:
            raise PermissionError(f"the dry run of keepstep check memory does not connect ({event})")
        if event in _PROCESSES:
            raise PermissionError(f"the dry run of keepstep check memory starts no process ({event})")
        if event == "open":
            path, mode, flags = arguments
            writes = any(each in mode for each in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
            if writes and not is_free(path):
                raise PermissionError(f"the dry run of keepstep check memory does not write {path}")
        elif event in _CHANGES and not all(is_free(each) for each in arguments if isinstance(each, str | bytes)):
            raise PermissionError(f"the dry run of keepstep check memory changes no files ({event} {arguments[0]!r})")

    return refuse
