# SPDX-License-Identifier: Apache-2.0
"""What the device would hold from the first tensor to the second step, for the picture. Pure."""

from __future__ import annotations

from typing import Any

from keepstep.check.memory.allocator import Allocator
from keepstep.check.memory.devices import Device
from keepstep.check.memory.forecast import OTHER, PARTS, Forecast, events_of, kinds_of
from keepstep.render.memory_picture import HeldOverTime

MOMENTS = 240
GAPS, CONTEXT = "kept by the allocator", "CUDA itself"


def over_time(seen: dict[str, Any], device: Device, made: Forecast) -> HeldOverTime:
    """The highest moment of each piece of the log. ``made``: its forecast."""
    kinds = kinds_of(seen)
    events = events_of(seen, device, kinds)
    names = (*PARTS.values(), OTHER)
    place = {kind: names.index(name) for kind, name in PARTS.items()}
    allocator, blocks = Allocator(), {}
    sums = [0] * len(names)
    best: dict[int, tuple[int, list[int], int]] = {}
    steps: list[float] = []
    each_piece = max(1, -(-len(events) // MOMENTS))
    for index, (number, size) in enumerate(events):
        if number < 0:
            steps.append(index / len(events))
            continue
        sums[place.get(kinds.get(number, ""), len(names) - 1)] += size
        if size > 0 and (block := allocator.allocate(size)) is not None:
            blocks[number] = block
        elif number in blocks:
            allocator.free(blocks.pop(number))
        piece, held = index // each_piece, sum(sums)
        if piece not in best or held > best[piece][0]:
            best[piece] = held, list(sums), allocator.reserved
    pieces = [best[n] for n in sorted(best)]
    return HeldOverTime(
        names=(*names, GAPS, CONTEXT),
        moments=tuple((*parts, max(0, reserved - held), made.low_beside) for held, parts, reserved in pieces),
        steps=tuple(steps),
        peak=max(range(len(pieces)), key=lambda n: pieces[n][0]),
        total=device.total,
        device=device.name,
    )
