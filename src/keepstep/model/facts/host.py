# SPDX-License-Identifier: Apache-2.0
"""What a host offers: memory, disks, limits, devices. Sizes are bytes."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySeen(Fact):
    """Host memory; ``limit`` is the control group's, if lower than what the host has."""

    total: int
    available: int
    limit: int | None = None
    used_of_limit: int | None = None
    swap_used: int = 0
    swap_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemorySeen(Fact):
    """/dev/shm, through which loader workers and NCCL hand over data."""

    total: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen(Fact):
    """Space where the run will write. ``error``: why it could not."""

    path: str
    free: int = 0
    total: int = 0
    inodes_free: int | None = None
    inodes_total: int | None = None
    error: str | None = None
    nearest: str | None = None
    """The nearest existing folder above, if the path itself does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSeen(Fact):
    """A limit of this process or its user, and how much of it is used; ``soft`` None: no limit."""

    name: str
    soft: int | None
    hard: int | None = None
    used: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings(Fact):
    """What decides whether a rank that crashes on this host leaves something to explain it."""

    host: str
    log_level: int | None = None
    """TF_CPP_MIN_LOG_LEVEL, if set."""
    core_limit: int | None = None
    """The limit on core files that a rank will have; None is no limit."""
    core_limit_most: int | None = None
    """The hard limit."""
    core_handler: str | None = None
    """The program that gets core files and from which this user cannot get them; empty: the kernel writes none."""
    faulthandler: bool = False
    """Whether Python prints its stack when it crashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoresSeen(Fact):
    """CPU cores this process may use, and what would run on them."""

    cores: int
    ranks_here: int = 1
    threads_each: int | None = None
    """OMP_NUM_THREADS, if set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeen(Fact):
    """One GPU, as its driver reports it: its own memory, never the host's."""

    index: int
    name: str
    total: int
    used: int
    others: tuple[str, ...] = ()
    """Processes that hold some of its memory."""
    uncorrected_errors: int = 0
    pending_repair: bool = False
    throttled: str | None = None
    corrected_in_test: int = 0
    """Memory errors that it corrected while it was tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFileSeen(Fact):
    """A lock that a TPU's driver leaves; ``holder``: the process that holds it, None if no process does."""

    path: str
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleBefore(Fact):
    """How often a host failed first, among the last failures examined here."""

    host: str
    began: int
    of: int
    last_cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWrong(Fact):
    """A device, or the host's memory, did not compute or keep what it was given; the right answer was known."""

    device: str
    """``GPU 0 (NVIDIA H200)``, ``host memory``."""
    what: str
    """``product``, ``memory``, or ``repeat``: the same computation gave other bits the second time."""
    dtype: str | None = None
    count: int
    """Numbers that were wrong."""
    of: int
    """How many one product or piece of memory has."""
    place: str | None = None
    """Of the first."""
    seen: str
    wanted: str
    index: int | None = None
    """Of a GPU, for the driver's tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesUnlike(Fact):
    """Devices of one kind that give different bits for the same computation. ``odd``: fewer than the others."""

    kind: str
    odd: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostErrors(Fact):
    """Errors that the host counted itself: of one memory module or controller, or machine checks."""

    where: str
    corrected: int = 0
    uncorrected: int = 0
    during_test: bool = False
    """Whether these came while keepstep tested; otherwise they may be old."""
