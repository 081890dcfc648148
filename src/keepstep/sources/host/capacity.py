# SPDX-License-Identifier: Apache-2.0
"""What this host offers: memory, shared memory, disks, limits, cores, TPU locks."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from keepstep.model.facts.host import CoresSeen, DiskSeen, LimitSeen, LockFileSeen, MemorySeen, SharedMemorySeen

CGROUPS = Path("/sys/fs/cgroup")
ENOUGH_FOR_ALL = 1 << 60
"""Control groups write a number near 2**63 for no limit."""
DEVICES, PCI = Path("/dev"), Path("/sys/bus/pci/devices")
TPU_VARIABLES = tuple(
    """
    TPU_NAME TPU_WORKER_ID TPU_WORKER_HOSTNAMES TPU_PROCESS_ADDRESSES TPU_ACCELERATOR_TYPE TPU_VISIBLE_CHIPS
    TPU_VISIBLE_DEVICES TPU_CHIPS_PER_HOST_BOUNDS TPU_CHIPS_PER_PROCESS_BOUNDS CLOUD_TPU_TASK_ID
    """.split()
)
"""Set where a job gets a TPU."""


def memory() -> MemorySeen:
    host, swap = psutil.virtual_memory(), psutil.swap_memory()
    limit, used = _group_memory()
    return MemorySeen(
        total=host.total,
        available=host.available,
        limit=limit if limit is not None and limit < host.total else None,
        used_of_limit=used if limit is not None and limit < host.total else None,
        swap_used=swap.used,
        swap_total=swap.total,
    )


def room() -> tuple[int, int]:
    """The memory that this process and its children may use, and what is left: the host's or the control group's."""
    host = psutil.virtual_memory()
    limit, used = _group_memory()
    if limit is None or used is None or limit >= host.total:
        return host.total, host.available
    return limit, min(host.available, max(0, limit - used + _reclaimable()))


def _reclaimable() -> int:
    """File pages in the control group's memory, which it would give up first."""
    for folder, _, _ in _group_folders():
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in (folder / "memory.stat").read_text().splitlines():
                if line.startswith(("inactive_file ", "total_inactive_file ")):
                    return int(line.split()[1])
    return 0


def _group_memory() -> tuple[int | None, int | None]:
    """Limit and use of this process's control group, of either version."""
    for folder, limit_file, used_file in _group_folders():
        with contextlib.suppress(OSError, ValueError):
            limit = int((folder / limit_file).read_text())
            if limit < ENOUGH_FOR_ALL:
                return limit, int((folder / used_file).read_text())
    return None, None


def _group_folders() -> tuple[tuple[Path, str, str], ...]:
    own = _own_groups()
    return (
        (CGROUPS / own.get("", "").lstrip("/"), "memory.max", "memory.current"),
        (CGROUPS / "memory" / own.get("memory", "").lstrip("/"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        (CGROUPS, "memory.max", "memory.current"),
        (CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    )


def _own_groups() -> dict[str, str]:
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                found[controller] = path
    return found


def shared_memory() -> SharedMemorySeen | None:
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")
        return SharedMemorySeen(total=room.f_blocks * room.f_frsize, free=room.f_bavail * room.f_frsize)
    return None


def disk(path: Path) -> DiskSeen:
    """Space at ``path``, or at the nearest existing folder above it, and whether this user may write there."""
    there = next((each for each in (path, *path.absolute().parents) if each.exists()), Path("/"))
    try:
        room = os.statvfs(there)
    except OSError as failed:
        return DiskSeen(path=str(path), error=failed.strerror or str(failed))
    error: str | None = None
    if not there.is_dir():
        error = f"{there} is not a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        error = f"this user may not write to {there}"
    elif os.statvfs(there).f_flag & os.ST_RDONLY:
        error = f"{there} is mounted read-only"
    return DiskSeen(
        path=str(path),
        free=room.f_bavail * room.f_frsize,
        total=room.f_blocks * room.f_frsize,
        inodes_free=room.f_favail if room.f_files else None,
        inodes_total=room.f_files or None,
        error=error,
        nearest=str(there) if there != path else None,
    )


def limits() -> list[LimitSeen]:
    found = []
    with contextlib.suppress(OSError):
        found.append(_limit("open files", resource.RLIMIT_NOFILE, len(os.listdir("/proc/self/fd"))))
    mine = sum(
        1 for process in psutil.process_iter(["uids"]) if (uids := process.info["uids"]) and uids.real == os.getuid()
    )
    found.append(_limit("processes", resource.RLIMIT_NPROC, mine if os.getuid() != 0 else None))
    own = _own_groups()
    for folder in (CGROUPS / "pids" / own.get("pids", "").lstrip("/"), CGROUPS / own.get("", "").lstrip("/")):
        with contextlib.suppress(OSError, ValueError):
            most, used = int((folder / "pids.max").read_text()), int((folder / "pids.current").read_text())
            found.append(LimitSeen(name="processes of the control group", soft=most, used=used))
            break
    return found


def _limit(name: str, number: int, used: int | None) -> LimitSeen:
    soft, hard = (None if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(number))
    return LimitSeen(name=name, soft=soft, hard=hard, used=used)


def cores(env: Mapping[str, str], ranks_here: int) -> CoresSeen:
    may_use = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = env.get("OMP_NUM_THREADS", "").partition(",")[0]
    return CoresSeen(
        cores=may_use,
        ranks_here=ranks_here,
        threads_each=int(threads) if threads.isdecimal() and len(threads) < 6 else None,
    )


def tpu_locks(env: Mapping[str, str], devices: Path = DEVICES, pci: Path = PCI) -> list[LockFileSeen]:
    """libtpu's lock files in the temporary folders, and which process holds them; none where the job uses no TPU.

    Any program that loads libtpu leaves one, also on a host without a TPU.
    """
    if not uses_tpu(env, devices, pci):
        return []
    folders = {Path("/tmp"), Path(tempfile.gettempdir())}
    paths = sorted(path for folder in folders for path in folder.glob("libtpu_lockfile*"))
    return [LockFileSeen(path=str(path), holder=_holder(path)) for path in paths]


def uses_tpu(env: Mapping[str, str], devices: Path = DEVICES, pci: Path = PCI) -> bool:
    """Whether the job's variables choose a TPU; where they choose nothing, whether they or the kernel know of one."""
    chosen = [value for name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "PJRT_DEVICE") if (value := env.get(name))]
    if chosen:
        return any("tpu" in value.lower() for value in chosen)
    return (
        any(env.get(name) for name in TPU_VARIABLES)
        or any(path.name[5:].isdecimal() for path in devices.glob("accel[0-9]*"))
        or any(_is_tpu(device) for device in pci.glob("*"))
    )


def _is_tpu(device: Path) -> bool:
    """A PCI device of Google that is neither a disk nor a network card."""
    with contextlib.suppress(OSError):
        if (device / "vendor").read_text().strip() == "0x1ae0":
            return not (device / "class").read_text().startswith(("0x01", "0x02"))
    return False


def _holder(path: Path) -> str | None:
    """The process that holds a lock on a file, by the kernel's list of locks."""
    with contextlib.suppress(OSError, ValueError):
        status = path.stat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[5] == device:
                with contextlib.suppress(psutil.Error):
                    return f"{psutil.Process(int(words[4])).name()} (pid {words[4]})"
                return f"pid {words[4]}"
    return None
