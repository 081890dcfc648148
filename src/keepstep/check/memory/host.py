# SPDX-License-Identifier: Apache-2.0
"""What the ranks of one host would need of its memory: processes, tensors, loader workers, batches under way. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keepstep.base.wording import count
from keepstep.check.memory.devices import GIB, MIB

LEAST_SAVING = 0.01
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


@dataclass(frozen=True)
class HostRemedy:
    what: str
    forecast: HostForecast


def host_remedies(seen: dict[str, Any], made: HostForecast) -> tuple[HostRemedy, ...]:
    """Each alone, with the forecast once more; those that save something, the one that needs least first."""
    loaders = seen.get("loaders", ())
    most = max((each["workers"] for each in loaders), default=0)
    of_tensors, _ = _records(seen)
    fewer = [{**each, "workers": min(each["workers"], most // 2)} for each in loaders]
    found: list[tuple[str, dict[str, Any], int]] = [
        ("prefetch_factor 1", {"loaders": [{**each, "prefetch": 1} for each in loaders]}, made.ranks),
        ("no pinned memory", {"loaders": [{**each, "pinned": False} for each in loaders]}, made.ranks),
        (
            "records read or augmented as used",
            {
                "loaders": [{**each, "records": {}} for each in loaders],
                "host_tensors": max(0, seen.get("host_tensors", 0) - of_tensors),
            },
            made.ranks,
        ),
    ]
    if most > 1:
        found.append((f"{count(most // 2, 'loader worker')} (now {most})", {"loaders": fewer}, made.ranks))
    if made.ranks > 1:
        found.append((f"{count(made.ranks // 2, 'rank')} on a host (now {made.ranks})", {}, made.ranks // 2))
    again = [HostRemedy(what, host_forecast({**seen, **change}, ranks, made.total)) for what, change, ranks in found]
    saving = [each for each in again if made.high - each.forecast.high > LEAST_SAVING * made.high]
    return tuple(sorted(saving, key=lambda each: each.forecast.high))


def _records(seen: dict[str, Any]) -> tuple[int, int]:
    """What datasets keep, as tensors and otherwise: each array once, also where several loaders have it."""
    held = {number: each for loader in seen.get("loaders", ()) for number, each in loader.get("records", {}).items()}
    return sum(each[0] for each in held.values()), sum(each[1] for each in held.values())


def host_forecast(seen: dict[str, Any], ranks: int, total: int | None) -> HostForecast:
    """``seen``: what the dry run of one rank wrote; ``ranks``: how many are on the host."""
    workers = shared = pinned = 0
    for loader in seen.get("loaders", ()):
        under_way = loader["workers"] * loader["prefetch"] * loader["batch"]
        workers += loader["workers"]
        shared += under_way
        # the next batch is pinned while the last is used; pinned memory is kept, in powers of two
        pinned += 2 * max(under_way, loader["batch"]) if loader.get("pinned") else 0
    of_tensors, otherwise = _records(seen)
    tensors = max(0, int(seen.get("host_tensors", 0)) - of_tensors)
    records = of_tensors + otherwise
    parts = (
        ("processes", PROCESS[0], PROCESS[1]),
        ("their tensors", tensors, tensors),
        ("datasets' records", records, records),
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
