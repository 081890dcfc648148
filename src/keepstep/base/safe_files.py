# SPDX-License-Identifier: Apache-2.0
"""Opening files that others may tamper with: theirs without being misled, our own so no other user can read them.

A name may come to mean something else between a look and an open. So a file is opened first, without ever waiting for
it, and then judged by its open descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_REGULAR = "not a regular file"
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_QUIETLY = os.O_RDONLY | _CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_regular(path: Path | str, *, same: tuple[int, int] | None = None, follow: bool = True) -> BinaryIO:
    """A regular file, open for reading; ``OSError`` for anything else. Never waits for a pipe or takes over a terminal.

    ``same``: its device and inode when it was found; a file that has replaced it since is refused.
    ``follow``: whether the name itself may be a link.
    """
    handle = os.open(path, _QUIETLY | (0 if follow else _NOFOLLOW))
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, NOT_REGULAR)
        if same is not None and same != (info.st_dev, info.st_ino):
            raise OSError(errno.ESTALE, "another file has replaced it since it was found")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def open_private(path: Path | str, flags: int) -> int:
    """Open one of our own files, creating it for this user only. A link, pipe or device in its place is refused."""
    handle = os.open(path, flags | os.O_CREAT | _CLOEXEC | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0), 0o600)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        os.set_blocking(handle, True)
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, NOT_REGULAR)


def append(path: Path | str, data: bytes) -> None:
    """Append to one of our own files in one write, so processes do not mix. On a full disk, all of it or nothing."""
    handle = open_private(path, os.O_WRONLY | os.O_APPEND)
    try:
        done = os.write(handle, data)
        if done < len(data):
            end = os.lseek(handle, 0, os.SEEK_CUR)
            if end == os.fstat(handle).st_size:
                os.ftruncate(handle, end - done)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def write_whole(path: Path | str, data: bytes) -> None:
    """Write one of our own files, whole or not at all, readable by this user only."""
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(open_private(fresh, os.O_WRONLY | os.O_EXCL), "wb") as stream:
            stream.write(data)
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def overwrite(path: Path | str, data: bytes) -> None:
    """Overwrite one of our own files in place, on a disk too full for two. On failure the old content stays."""
    with open_regular(path, follow=False) as stream:
        before = stream.read()
    handle = open_private(path, os.O_WRONLY)
    try:
        if os.pwrite(handle, data, 0) == len(data):
            os.ftruncate(handle, len(data))
            return
        os.pwrite(handle, before, 0)
        os.ftruncate(handle, len(before))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def make_private(path: Path, *, exist_ok: bool = True) -> None:
    """Make a folder, and what is missing above it, for this user alone. What exists stays as it is."""
    try:
        path.mkdir(mode=0o700, exist_ok=exist_ok)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=exist_ok)


def open_to_share(path: Path | str) -> BinaryIO:
    """A file that the user asked for, to write anew: others may read it if the umask says so, and never change it."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOEXEC, 0o644), "wb")


def share_whole(path: Path | str, data: bytes) -> None:
    """Write a file that the user asked for, whole or not at all. What is there and no regular file is written to."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open_to_share(path) as stream:
            stream.write(data)
        return
    real = os.path.realpath(path)  # a link stays a link
    fresh = os.path.join(os.path.dirname(real), f".{os.path.basename(real)}.{os.urandom(4).hex()}")
    try:
        with open_to_share(fresh) as stream:
            stream.write(data)
        os.replace(fresh, real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def replace_whole(path: Path | str, data: bytes, mode: int) -> None:
    """Write a user's file anew, whole or not at all, with these rights."""
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(open_private(fresh, os.O_WRONLY | os.O_EXCL), "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def private_folder(path: Path) -> None:
    """Make sure this folder exists, for this user alone. ``PermissionError`` if another user made it first."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if info.st_mode & 0o077:
        path.chmod(0o700)


def stranger(info: os.stat_result) -> str | None:
    """Why a file or folder is not the user's own: another user owns it or can change it. None: it is."""
    if info.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    shared_group = info.st_mode & stat.S_IWGRP and info.st_gid not in (
        info.st_uid,
        0,
    )  # many users have a group of their own
    if info.st_mode & stat.S_IWOTH or shared_group:
        return "other users can change it"
    return None
