# SPDX-License-Identifier: Apache-2.0
"""The files of black boxes: where they live in memory, how to open one safely, and how its content is kept."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from pathlib import Path
from typing import BinaryIO

from keepstep.base.safe_files import open_regular, write_whole
from keepstep.signals.blackbox import MAGIC, MOST_BYTES, is_box

MEMORY = Path("/dev/shm")


def own_memory() -> Path:
    """This user's folder in this host's memory."""
    return memory_of(os.geteuid())


def memory_of(user: int) -> Path:
    return MEMORY / f"keepstep-{user}"


def open_box(path: Path) -> BinaryIO:
    """Open a box, or the box a link points to, owned by this user or by the owner of its folder. Raises ``OSError``."""
    stream = open_regular(path)
    try:
        if os.fstat(stream.fileno()).st_uid not in (os.geteuid(), path.parent.stat().st_uid):
            raise PermissionError(errno.EPERM, "it belongs to another user")
        if not is_box(stream.peek(len(MAGIC)) if isinstance(stream, io.BufferedReader) else b""):
            raise OSError(errno.EINVAL, "not a black box")
    except BaseException:
        stream.close()
        raise
    return stream


def keep(link: Path) -> None:
    """Replace the link with a copy of the box it points to, and free the memory. A second call does nothing."""
    if not link.is_symlink():
        return
    with contextlib.suppress(OSError):
        box = Path(os.readlink(link))
        with open_box(link) as stream:
            info = os.fstat(stream.fileno())
            write_whole(link, stream.read(MOST_BYTES))
        _free(box, info)


def _free(box: Path, kept: os.stat_result) -> None:
    """Remove a box from our own folder in memory. Files elsewhere that a link points to are not touched."""
    folder = own_memory()
    if box.parent != folder:
        return
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        there = os.stat(box.name, dir_fd=place, follow_symlinks=False)
        if os.fstat(place).st_uid == os.geteuid() and (there.st_dev, there.st_ino) == (kept.st_dev, kept.st_ino):
            os.unlink(box.name, dir_fd=place)
    finally:
        os.close(place)
