# SPDX-License-Identifier: Apache-2.0
"""A process and its children apart from the machine: no network but loopback, and no file of the user's is changed.

The user's folders are seen through a layer that is thrown away; all else is read-only. Needs a kernel that lets a
user have namespaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import make_private

_NEWNS, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
_REC, _PRIVATE, _NOSUID, _NODEV, _NOEXEC = 0x4000, 0x40000, 2, 4, 8
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _RDONLY = 442, -100, 0x8000, 1
_SET_PDEATHSIG = 1
_SIOCSIFFLAGS, _UP_RUNNING = 0x8914, 0x41


def enter(scratch: str, more: Iterable[str] = ()) -> None:
    """Go on as the first process of namespaces of its own; the process that called waits for it, and exits like it.

    ``scratch`` becomes a file system in memory. ``more``: folders that may be written besides the usual ones.
    Raises OSError, with nothing changed that matters, where the kernel refuses. The process must have no threads.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    asked = sorted({os.path.realpath(each) for each in (*_usual_folders(), *more)})
    folders = _outermost(scratch, asked)
    _called(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    end_with_parent()
    child = os.fork()  # keepstep: ignore[COD113] no framework is loaded yet
    if child:
        status = os.waitpid(child, 0)[1]
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    end_with_parent()
    _called(libc.mount(b"none", b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None))
    attributes = struct.pack("QQQQ", _RDONLY, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE)
    _called(libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", flags, attributes, ctypes.c_size_t(len(attributes))))
    _mount(libc, "tmpfs", scratch, "size=2g")
    if os.path.isdir("/dev/shm"):
        _mount(libc, "tmpfs", "/dev/shm", "size=1g")
    here = os.getcwd()
    for folder in folders:
        if not _layer(libc, scratch, folder):  # another file system lies in it, which holds it fast
            for each in asked:
                if each.startswith(folder + os.sep):
                    _layer(libc, scratch, each)
    with contextlib.suppress(OSError):  # a container may forbid it: then the processes outside are still listed
        _mount(libc, "proc", "/proc", "", _NOEXEC)
    with contextlib.suppress(OSError):
        _loopback_up()
    os.chdir(here)
    tempfile.tempdir = os.path.join(scratch, "tmp")
    make_private(Path(tempfile.tempdir))
    os.environ["TMPDIR"] = tempfile.tempdir


def end_with_parent() -> None:
    """A `keepstep` that is killed leaves nothing running. Entering a namespace of users clears it: set it then."""
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)


def _usual_folders() -> tuple[str, ...]:
    """Where scripts write as a rule."""
    return os.path.expanduser("~"), tempfile.gettempdir(), os.getcwd()


def _outermost(scratch: str, asked: list[str]) -> list[str]:
    """A folder within another one of them is part of it if they share a disk. The one with ``scratch`` comes last."""
    found: list[str] = []
    for folder in asked:
        if not os.path.isdir(folder) or folder == os.sep or any(mark in folder for mark in ",:\\"):
            continue
        inside = [each for each in found if folder.startswith(each + os.sep)]
        if not any(os.stat(each).st_dev == os.stat(folder).st_dev for each in inside):
            found.append(folder)
    return sorted(found, key=lambda each: os.path.realpath(scratch).startswith(each + os.sep))


def _layer(libc: Any, scratch: str, folder: str) -> bool:
    """Let changes in this folder go to ``scratch``; if that cannot be, it stays read-only."""
    number = len(os.listdir(scratch))
    upper, work = (os.path.join(scratch, f"{name}{number}") for name in ("upper", "work"))
    make_private(Path(upper))
    make_private(Path(work))
    with contextlib.suppress(OSError):
        _mount(libc, "overlay", folder, f"lowerdir={folder},upperdir={upper},workdir={work},userxattr")
        return True
    return False


def _loopback_up() -> None:
    import fcntl

    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_RUNNING))


def _mount(libc: Any, kind: str, folder: str, options: str, more: int = 0) -> None:
    flags = ctypes.c_ulong(_NOSUID | _NODEV | more)
    _called(libc.mount(kind.encode(), os.fsencode(folder), kind.encode(), flags, os.fsencode(options)))


def _called(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
