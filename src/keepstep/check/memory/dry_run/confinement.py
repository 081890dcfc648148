# SPDX-License-Identifier: Apache-2.0
"""What the script may not do in a dry run: change a file of the user's, reach a network, leave a process behind.

Where the kernel lets a user have namespaces, folders are seen through a layer that is thrown away, all else is
read-only, and there is no network. Elsewhere hooks of the interpreter refuse what would write or connect.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import make_private

NAMESPACES = "namespaces"
HOOKS = "hooks"
_NEWNS, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
_REC, _PRIVATE, _NOSUID, _NODEV = 0x4000, 0x40000, 2, 4
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _RDONLY = 442, -100, 0x8000, 1
_SET_PDEATHSIG = 1
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
        _into_namespaces(scratch)
        sys.addaudithook(_refuse_sockets_of_others)
        return NAMESPACES
    except OSError:
        tempfile.tempdir = scratch
        os.environ["TMPDIR"] = scratch
        sys.addaudithook(_refuser(os.path.realpath(scratch) + os.sep))
        return HOOKS


def _into_namespaces(scratch: str) -> None:
    """Raises OSError, with nothing changed that matters, where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    folders = _own_folders(scratch)
    _called(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    child = os.fork()  # keepstep: ignore[COD113] no framework is loaded yet
    if child:
        status = os.waitpid(child, 0)[1]
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
    _called(libc.mount(b"none", b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None))
    attributes = struct.pack("QQQQ", _RDONLY, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE)
    _called(libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", flags, attributes, ctypes.c_size_t(len(attributes))))
    _mount(libc, "tmpfs", scratch, "size=2g")
    if os.path.isdir("/dev/shm"):
        _mount(libc, "tmpfs", "/dev/shm", "size=1g")
    here = os.getcwd()
    for number, folder in enumerate(folders):
        upper, work = (os.path.join(scratch, f"{name}{number}") for name in ("upper", "work"))
        make_private(Path(upper))
        make_private(Path(work))
        try:
            _mount(libc, "overlay", folder, f"lowerdir={folder},upperdir={upper},workdir={work},userxattr")
        except OSError:
            continue  # it stays read-only
    os.chdir(here)
    tempfile.tempdir = os.path.join(scratch, "tmp")
    make_private(Path(tempfile.tempdir))
    os.environ["TMPDIR"] = tempfile.tempdir


def _own_folders(scratch: str) -> list[str]:
    """Where scripts write as a rule; a folder within another one of them is part of it if they share a disk."""
    found: list[str] = []
    names = (os.path.expanduser("~"), tempfile.gettempdir(), os.getcwd())
    for folder in sorted({os.path.realpath(name) for name in names}):
        if not os.path.isdir(folder) or folder == os.sep or any(mark in folder for mark in ",:\\"):
            continue
        inside = [each for each in found if folder.startswith(each + os.sep)]
        if not any(os.stat(each).st_dev == os.stat(folder).st_dev for each in inside):
            found.append(folder)
    return [each for each in found if not os.path.realpath(scratch).startswith(each + os.sep)] + [
        each for each in found if os.path.realpath(scratch).startswith(each + os.sep)
    ]


def _mount(libc: Any, kind: str, folder: str, options: str) -> None:
    flags = ctypes.c_ulong(_NOSUID | _NODEV)
    _called(libc.mount(kind.encode(), os.fsencode(folder), kind.encode(), flags, os.fsencode(options)))


def _called(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


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
