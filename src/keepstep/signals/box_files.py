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
LONGEST_LINK = 300
"""It must fit into the black box with the rest."""


def own_memory() -> Path:
    """This user's folder in this host's memory."""
    return memory_of(os.geteuid())


def memory_of(user: int) -> Path:
    return MEMORY / f"keepstep-{user}"


def linked_from(link: Path) -> dict[str, str | None]:
    """What a box in memory says about its link, for whoever finds it; nothing if that is too long."""
    name = str(link.absolute())
    if len(name) > LONGEST_LINK or not name.isascii():
        return {}
    return {"link": name, "link_on": device_of(link.parent), "pid_space": pid_space()}


def device_of(folder: Path) -> str | None:
    """The file system that a folder is on."""
    try:
        return str(folder.stat().st_dev)
    except OSError:
        return None


def pid_space() -> str | None:
    """In which namespace process numbers are meant: containers may share the memory and not the numbers."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


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
