# SPDX-License-Identifier: Apache-2.0
"""Memory, disks, limits: what ran out."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemoryExhausted(Fact):
    """An accelerator's memory ran out. ``kind``: gpu or tpu. Sizes as printed."""

    kind: str = "gpu"
    device: str | None = None
    requested: str | None = None
    capacity: str | None = None
    free: str | None = None
    held: str | None = None
    """By the framework's own tensors."""
    fatal: bool = True
    """False if the framework may continue with less, or if the message only usually means this."""
    library: str | None = None
    """The CUDA library that could not create its handle, with no further reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKilled(Fact):
    """The kernel, a cgroup, Slurm, Kubernetes or Ray killed a process for host memory."""

    by: str
    pid: int | None = None
    process: str | None = None
    limit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAllocationFailed(Fact):
    """An allocation of host memory failed (``bad_alloc``, ``MemoryError``, ``Cannot allocate memory``)."""

    requested: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationAbsurd(Fact):
    """One allocation so large that the number itself must be wrong: a damaged or uninitialised value."""

    requested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryExhausted(Fact):
    """Shared memory (``/dev/shm``) was not available."""

    size: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFull(Fact):
    """A write failed for lack of space, quota or inodes."""

    path: str | None = None
    quota: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(Fact):
    """A limit on files, processes, threads or locked memory was reached."""

    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderWorkerDied(Fact):
    """A data loader's worker process ended unexpectedly. ``signal``, if given."""

    pid: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrew(Fact):
    """Memory use rose steadily, as reported by the run itself or by readings."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRead(Fact):
    """One memory reading that the run printed: of what, and how much (bytes or percent)."""

    what: str
    value: float
    free: bool = False
    """Whether it is what is left, instead of what is used."""
    on_device: bool = False
    """Whether it is of the accelerator, or unspecified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRose(Fact):
    """Memory of a rank's processes rose by about as much in every part of a stretch of steps, as seen from outside."""

    began_bytes: int
    now_bytes: int
    steps: int
    seconds: float
    epochs_before: int = 0
    """Epochs that were over when the stretch began."""
    epochs: int = 0
    """Epochs that began in it."""
    others_bytes: int | None = None
    """The largest rise of any other rank in the same time; None: there is no other."""
    left_bytes: int | None = None
    """Memory that the host or control group had left at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention(Fact):
    """Another job or process held what this one needed (CPU, GPU, lock)."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLow(Fact):
    """The last reading of the host's (or its control group's) memory before the end showed almost nothing left."""

    left_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemoryForecast(Fact):
    """What a training would need of a device, from a dry run. Bytes; ``low`` to ``high`` is where the truth may lie."""

    device: str
    total: int
    low: int
    high: int
    allocated: int = 0
    """The most that tensors would hold at once."""
    reserved: int = 0
    """The most that the allocator would take."""
    parts: tuple[tuple[str, int], ...] = ()
    """What is held at that moment."""
    line: str | None = None
    """The line of the program that would be running when the device is full, else at the peak."""
    asked: int | None = None
    """The bytes that did not fit any more."""
    ranks: int = 1
    remedies: tuple[tuple[str, int], ...] = ()
    """What was changed to forecast again, and the upper end then; what needs least first."""
    batch: int | None = None
    largest_batch: int | None = None
    """That fits; 0 if not one record does, None if it was not found."""
    longest: int | None = None
    """The most that tensors would hold with the longest record of the data, where that is longer than those seen."""
    framework: str | None = None
    earlier: bool = False
    """Whether it was made before the run that is being explained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemoryHeld(Fact):
    """The most that a rank's tensors have held of its device so far, as its framework counts. Bytes."""

    steps: int
    held: int
    taken: int | None = None
    """The most that the allocator took for them."""
    limit: int | None = None
    """What the process may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemoryForecast(Fact):
    """What the ranks of one host would need of its memory together, from a dry run. Bytes."""

    low: int
    high: int
    ranks: int
    total: int | None = None
    """What the host has, if that was said."""
    parts: tuple[tuple[str, int], ...] = ()
    """The upper end of each part, of all ranks together."""
    workers: int = 0
    """Of loaders, per rank."""
    remedies: tuple[tuple[str, int], ...] = ()
    """What would help, each alone, with the upper end of the forecast then."""
    earlier: bool = False
    """Whether it was made before the run that is being explained."""
