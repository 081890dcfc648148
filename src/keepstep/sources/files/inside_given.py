# SPDX-License-Identifier: Apache-2.0
"""Where an open file really is, and whether that is inside what was given. A folder may change while we read it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
KERNEL_FILE_SYSTEMS = frozenset(
    """
    proc sysfs devtmpfs devpts cgroup cgroup2 debugfs tracefs securityfs pstore bpf configfs efivarfs mqueue fusectl
    binfmt_misc nsfs selinuxfs
    """.split()
)


def place_of(handle: int, path: Path | str) -> str:
    """Where an open file or folder really is. If the kernel does not say: where its path leads now."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{handle}").removesuffix(" (deleted)")
    return os.path.realpath(path)


def is_inside(place: str, roots: Sequence[str]) -> bool:
    """Whether a real path is one of the real roots, or below one."""
    return any(place == root or place.startswith(root.rstrip("/") + "/") for root in roots)


def is_kernels(place: str, device: int, named: Sequence[str]) -> bool:
    """Whether it is the kernel's: on one of its file systems, or in /proc, /sys or /dev (unless named there)."""
    if device in _kernel_devices():
        return True
    return is_inside(place, KERNEL_FOLDERS) and not any(
        is_inside(place, [root]) and is_inside(root, KERNEL_FOLDERS) for root in named
    )


@cache
def _kernel_devices() -> frozenset[int]:
    found = set()
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/mountinfo", "rb") as stream:
            lines = stream.read(4 << 20).decode(errors="replace").splitlines()
        for line in lines:
            before, _, after = line.partition(" - ")
            if after.split(" ", 1)[0] in KERNEL_FILE_SYSTEMS:
                major, _, minor = before.split()[2].partition(":")
                found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)
