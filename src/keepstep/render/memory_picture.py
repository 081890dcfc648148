# SPDX-License-Identifier: Apache-2.0
"""What a device would hold over the first steps of a training, as a section of the page: one SVG, no script."""

from __future__ import annotations

from dataclasses import dataclass

from keepstep.base.wording import size
from keepstep.render.templating import Markup, escape, fill, join

WIDTH, HEIGHT = 1000, 300


@dataclass(frozen=True, kw_only=True)
class HeldOverTime:
    """Bytes of each part (``names``) at each of the ``moments``.

    ``steps``: where optimizers stepped, 0 to 1. ``peak``: the moment at which tensors hold most.
    """

    names: tuple[str, ...]
    moments: tuple[tuple[int, ...], ...]
    steps: tuple[float, ...]
    peak: int
    total: int
    device: str


def memory_picture(held: HeldOverTime) -> Markup:
    """Parts on top of each other, from left to right, under the line of what the device has."""
    if not held.moments:
        return Markup()
    top = 1.06 * max(held.total, *(sum(moment) for moment in held.moments))
    areas, below = [], [0] * len(held.moments)
    for number in range(len(held.names)):
        above = [low + moment[number] for low, moment in zip(below, held.moments, strict=True)]
        if above != below:
            areas.append(_area(number, below, above, top))
        below = above
    limit = HEIGHT * (1 - held.total / top)
    at_peak = zip(held.names, held.moments[held.peak], strict=True)
    legend = [_entry(number, name, bytes_) for number, (name, bytes_) in enumerate(at_peak) if bytes_]
    lines = [_line(WIDTH * step) for step in held.steps]
    return fill(
        "memory.html",
        width=WIDTH,
        height=HEIGHT,
        areas=join(areas),
        steps=join(lines),
        limit=f"{limit:.1f}",
        limit_percent=f"{100 * limit / HEIGHT:.2f}",
        has=f"{held.device} has {size(held.total)}",
        peak=f"{WIDTH * (held.peak + 0.5) / len(held.moments):.1f}",
        peak_bytes=size(sum(held.moments[held.peak])),
        legend=join(legend[::-1]),
    )


def _area(number: int, below: list[int], above: list[int], top: float) -> Markup:
    """A band of steps: a moment is as wide as its piece of the log."""
    wide = WIDTH / len(below)

    def edge(values: list[int]) -> list[str]:
        found = []
        for n, value in enumerate(values):
            y = HEIGHT * (1 - value / top)
            found += [f"{n * wide:.1f},{y:.1f}", f"{(n + 1) * wide:.1f},{y:.1f}"]
        return found

    points = " ".join([*edge(above), *reversed(edge(below))])
    return Markup(f'<polygon class="m{number}" points="{points}"/>\n')


def _line(x: float) -> Markup:
    return Markup(f'<line class="step" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}"/>\n')


def _entry(number: int, name: str, bytes_: int) -> Markup:
    return Markup(f'<li><i class="m{number}"></i>{escape(name)} <b>{escape(size(bytes_))}</b></li>\n')
