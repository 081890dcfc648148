# SPDX-License-Identifier: Apache-2.0
"""What the ranks of one host would need of its memory: processes, tensors, loader workers, batches under way. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keepstep.check.memory.devices import GIB, MIB

PROCESS = (700 * MIB, 3 * GIB)
"""A process with torch and CUDA's libraries, before its first tensor (assumed)."""
WORKER = (50 * MIB, 400 * MIB)
"""What a loader's worker does not share with the process it came from (assumed); its records are not known."""


@dataclass(frozen=True, kw_only=True)
class HostForecast:
    """Bytes, of all ranks of the host together. ``total``: what the host has, if that was said."""

    ranks: int
    parts: tuple[tuple[str, int, int], ...]
    """Each with its lower and its upper end."""
    shared: int
    """What batches of workers hold of /dev/shm: a part of the above."""
    workers: int
    total: int | None

    @property
    def low(self) -> int:
        return sum(low for _, low, _ in self.parts)

    @property
    def high(self) -> int:
        return sum(high for _, _, high in self.parts)

    @property
    def verdict(self) -> str:
        if self.total is None:
            return ""
        if self.low > self.total:
            return "does not fit"
        return "fits" if self.high <= self.total else "too close to say"


def host_forecast(seen: dict[str, Any], ranks: int, total: int | None) -> HostForecast:
    """``seen``: what the dry run of one rank wrote; ``ranks``: how many are on the host."""
    workers = shared = pinned = 0
    for loader in seen.get("loaders", ()):
        under_way = loader["workers"] * loader["prefetch"] * loader["batch"]
        workers += loader["workers"]
        shared += under_way
        # the next batch is pinned while the last is used; pinned memory is kept, in powers of two
        pinned += 2 * max(under_way, loader["batch"]) if loader.get("pinned") else 0
    tensors = int(seen.get("host_tensors", 0))
    parts = (
        ("processes", PROCESS[0], PROCESS[1]),
        ("their tensors", tensors, tensors),
        ("loader workers", workers * WORKER[0], workers * WORKER[1]),
        ("batches under way", shared, shared),
        ("pinned memory", 0, pinned),
    )
    return HostForecast(
        ranks=ranks,
        parts=tuple((name, ranks * low, ranks * high) for name, low, high in parts if high),
        shared=ranks * shared,
        workers=workers,
        total=total,
    )
