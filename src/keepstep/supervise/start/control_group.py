# SPDX-License-Identifier: Apache-2.0
"""A control group for the processes of a run, where this user may make one: nothing that a rank starts can leave it.

It limits and counts nothing; it only keeps them together. A process that left its session, lost its parent and wiped
its environment is still in it. Hierarchies without controllers come first. Root may make a group, and so may a user to
whom systemd has delegated one (``systemd-run --user --scope -p Delegate=yes``). ``KEEPSTEP_CGROUP=off`` turns it off.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep.supervise.start import reaper

HARMLESS = ("freezer", "pids")
"""Controllers of version 1 in which a group of our own changes nothing."""
_NAME = re.compile(r"keepstep-(\d{1,10})-(\d{1,20})")
_MANAGED = re.compile(r"slurm|pbs|lsf|htcondor", re.IGNORECASE)
"""Schedulers that find a job's processes by its group, and do not look into those below."""


def make(env: Mapping[str, str] = os.environ) -> Path | None:
    """A new group below our own; None if there can be none."""
    if env.get("KEEPSTEP_CGROUP", "").lower() in ("off", "0", "no"):
        return None
    own = read_stat(os.getpid())
    for parent in _own_groups():
        with contextlib.suppress(OSError):
            _remove_left(parent)
            group = parent / f"keepstep-{os.getpid()}-{own.started if own is not None else 0}"
            group.mkdir(mode=0o755)
            if os.access(group / "cgroup.procs", os.W_OK) and os.access(parent / "cgroup.procs", os.W_OK):
                return group
            group.rmdir()
    return None


@contextlib.contextmanager
def inside(group: Path | None) -> Iterator[None]:
    """What is started meanwhile is born in the group: if moved there later, it could have started others before.

    We are in it for this moment: this thread alone in version 1, all of us in version 2.
    """
    moved = group is not None and _put(group)
    try:
        yield
    finally:
        if group is not None and moved:
            _put(group.parent)


def _put(group: Path) -> bool:
    for name, number in (("tasks", threading.get_native_id()), ("cgroup.procs", os.getpid())):
        if (group / name).exists():
            with contextlib.suppress(OSError):
                (group / name).write_text(str(number))
                return True
            return False
    return False


def _own_groups() -> Iterator[Path]:
    """The folders of our own group, best first.

    Version 2 without controllers, then harmless ones of version 1, then any of version 2.
    """
    try:
        mounted = list(_mounts(Path("/proc/self/mountinfo").read_text()))
        said = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except (OSError, ValueError):
        return
    last: list[Path] = []
    unified: list[Path] = []
    version_1: list[Path] = []
    for _, controllers, place in said:
        if _MANAGED.search(place):
            continue
        for kind, options, root, point in mounted:
            if place != root and not place.startswith(root.rstrip("/") + "/"):
                continue
            folder = point / place[len(root.rstrip("/")) :].lstrip("/")
            if kind == "cgroup2" and not controllers:
                (unified if not _controllers(folder) else last).append(folder)
            elif kind == "cgroup" and controllers in HARMLESS and controllers in options:
                version_1.append(folder)
    yield from (*unified, *sorted(version_1, key=lambda path: "freezer" not in path.parts), *last)


def _mounts(text: str) -> Iterator[tuple[str, list[str], str, Path]]:
    """Kind, options, root in the hierarchy and place of every mounted one."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, about = before.split(), after.split()
        if len(fields) > 4 and len(about) > 2 and about[0] in ("cgroup", "cgroup2"):
            yield about[0], about[2].split(","), fields[3], Path(fields[4])


def _controllers(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (folder / "cgroup.controllers").read_text().split()
    return []


def _remove_left(parent: Path) -> None:
    """Empty groups of supervisors that were killed together with their reapers."""
    for path in parent.glob("keepstep-*"):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        entry = read_stat(int(match[1]))
        if entry is None or entry.started != int(match[2]):
            reaper.remove_group(path)
