# SPDX-License-Identifier: Apache-2.0
"""From the log of a dry run to what the device would hold: the peak, its parts, and how sure that is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keepstep.check.memory.allocator import Replayed, replay
from keepstep.check.memory.devices import NCCL, Device
from keepstep.check.memory.many_lengths import reserved_over_many

PARTS = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer state": "optimizer state",
    "activation": "activations",
    "input": "inputs",
    "library": "library workspaces",
    "workspace": "library workspaces",
}
"""What a storage is for; anything else is `other`: buffers, and what backward and optimizer hold for a moment."""
OTHER = "other"
MARGIN = 0.04
"""How far the count of tensors may be off, either way. On an H200 the reserved peak of GPTs was off by 0.0 %, with
autocast too; what the libraries take for recurrent layers and convolutions is known to some 10 % of it."""
AS_WRITTEN = "torch.compile: counted uncompiled, which needs no less"
COMPILED_LEAST = 0.5
"""Compiled, tensors held 60 to 99 % of what they do uncompiled, in seven programs on an H200."""
BY_VALUES = "a size that depends on values"
"""With this guess only what is held anyway is sure."""
_HELD = frozenset(("parameter", "optimizer state", "input"))
_FORWARD, _BACKWARD = "activation", "backward"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Bytes. ``low`` and ``high``: between them lies what the process would take of the device."""

    device: Device
    low: int
    high: int
    low_beside: int
    """What is taken beside tensors, at least."""
    allocated: int
    reserved: int
    parts: tuple[tuple[str, int], ...]
    lines: tuple[tuple[str, int], ...]
    """Which lines of the script made what is held at the peak, the largest first."""
    line: str
    asked: int | None
    wrong_sums: tuple[str, ...]
    """Parts whose count is not what arithmetic says."""
    framework: str = "torch"
    gets_by: int | None = None
    """It gets by with so much: where the device is full, the allocator gives back what it does not use, and libraries
    do without scratch memory. Known where all that it would take is more than the device has."""

    @property
    def verdict(self) -> str:
        if self.low > self.device.total:
            return "does not fit"
        enough = self.high if self.gets_by is None else min(self.high, self.gets_by)
        return "fits" if enough <= self.device.total and not self.wrong_sums else "too close to say"


def forecast(seen: dict[str, Any], device: Device, ranks: int) -> Forecast:
    """``seen``: what the dry run wrote."""
    kinds = kinds_of(seen)
    places = {int(number): str(place) for number, place in seen["places"].items()}
    events = events_of(seen, device, kinds)
    free = replay(events)
    reserved = max(free.reserved, reserved_over_many(events, seen.get("given", ()), seen.get("ahead")) or 0)
    beside = [device.context[0], device.context[1]]
    if ranks > 1 and seen.get("grouped", True):
        beside = [beside[0] + NCCL[0], beside[1] + NCCL[1]]
    low = int(free.allocated * (1 - MARGIN)) + beside[0]
    high = int(reserved * (1 + MARGIN)) + beside[1]
    gets_by = None
    if device.total < high:
        least = least_room(events, kinds, free.reserved)
        low, gets_by = int(least * (1 - MARGIN)) + beside[0], int(least * (1 + MARGIN)) + beside[1]
    held = sum(size for number, size in free.live.items() if kinds.get(number) in _HELD)
    for guess, least in (("torch.compile", max(held, int(free.allocated * COMPILED_LEAST))), (BY_VALUES, held)):
        if any(each.startswith(guess) for each in seen.get("guesses", ())):
            low = min(low, int(least * (1 - MARGIN)) + beside[0])
    full = replay(events, max(0, device.total - beside[0])) if low > device.total else None
    line, asked = _full_at(events, full, places) if full is not None else (_made_at(events, free, places), None)
    return Forecast(
        device=device,
        low=low,
        high=high,
        low_beside=beside[0],
        allocated=free.allocated,
        reserved=reserved,
        parts=_parts(free.live, kinds),
        lines=_lines(free.live, places),
        line=line,
        asked=asked,
        wrong_sums=_wrong(seen),
        gets_by=gets_by,
    )


def least_room(events: list[tuple[int, int]], kinds: dict[int, str], most: int) -> int:
    """Bytes that the allocator gets by with, to half a per cent; ``most`` are enough."""
    optional = frozenset(number for number, kind in kinds.items() if kind == "workspace")
    low, high = 0, most
    while high - low > most // 200:
        middle = (low + high) // 2
        low, high = (low, middle) if replay(events, middle, optional).full_event is None else (middle, high)
    return high


def kinds_of(seen: dict[str, Any]) -> dict[int, str]:
    """What each storage is for."""
    return {int(number): str(kind) for number, kind in seen["kinds"].items()}


def events_of(seen: dict[str, Any], device: Device, kinds: dict[int, str]) -> list[tuple[int, int]]:
    """The log that is replayed: cuBLAS takes memory with the first product, and once more in backward's thread."""
    events = [(int(number), int(size)) for number, size in seen["events"]]
    found: list[tuple[int, int]] = []
    number = max(kinds, default=-1)
    for kind in (_FORWARD, _BACKWARD):
        first = next((n for n, (each, size) in enumerate(events) if size > 0 and kinds.get(each) == kind), None)
        if first is not None:
            number += 1
            kinds[number] = "library"
            found.append((first, number))
    for place, each in sorted(found, reverse=True):
        events.insert(place, (each, device.library_workspace))
    return events


def _parts(live: dict[int, int], kinds: dict[int, str]) -> tuple[tuple[str, int], ...]:
    sums = dict.fromkeys((*PARTS.values(), OTHER), 0)
    for number, size in live.items():
        sums[PARTS.get(kinds.get(number, ""), OTHER)] += size
    return tuple((name, size) for name, size in sums.items() if size)


def _lines(live: dict[int, int], places: dict[int, str]) -> tuple[tuple[str, int], ...]:
    sums: dict[str, int] = {}
    for number, size in live.items():
        if places.get(number):
            sums[places[number]] = sums.get(places[number], 0) + size
    return tuple(sorted(sums.items(), key=lambda pair: -pair[1])[:5])


def _full_at(events: list[tuple[int, int]], full: Replayed, places: dict[int, str]) -> tuple[str, int | None]:
    if full.full_event is None:
        return "", None
    number, size = events[full.full_event]
    return places.get(number, ""), size


def _made_at(events: list[tuple[int, int]], free: Replayed, places: dict[int, str]) -> str:
    return places.get(events[free.peak_event][0], "") if free.peak_event >= 0 else ""


def _wrong(seen: dict[str, Any]) -> tuple[str, ...]:
    """Where what is counted at the last step is not what the tensors' own shapes say."""
    return tuple(
        PARTS[kind] for kind, said in seen.get("sums", {}).items() if said != seen.get("counted", {}).get(kind, said)
    )
