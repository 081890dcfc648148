# SPDX-License-Identifier: Apache-2.0
"""What was measured in a run as curves: over all ranks, and for each host and GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from keepstep.errors import UserError
from keepstep.store.history.reader import History, Point, open_history
from keepstep.store.history.readings import GPU, HOST, RANK, READINGS, Reading

POINTS = 1000
LOWEST, MIDDLE, HIGHEST = "ranks-lowest", "ranks-median", "ranks-highest"


class Value(NamedTuple):
    """One value of one curve."""

    reading: Reading
    at: float
    """Seconds since the epoch."""
    step: int
    """Other tools want one: the seconds since the run began."""
    value: float


def curves(run: Path) -> tuple[float, dict[str, list[Value]]]:
    """When the run began, and the curves of each group of ranks, host and GPU."""
    history = open_history(run)
    start, end = history.span
    if end <= start:
        raise UserError(f"{run} has no history", hint="`keepstep run` and the guard's companion write one")
    groups: dict[str, list[Value]] = {}
    for each in READINGS.values():
        if each.of == RANK and each.name != "phase":
            for group, values in _over_ranks(history, each, start, end):
                groups.setdefault(group, []).extend(values)
        elif each.of in (HOST, GPU):
            for subject in history.hosts if each.of == HOST else history.gpus:
                points = history.series(each.name, subject, start, end, POINTS)
                groups.setdefault(subject, []).extend(_value(each, point, point.mean, start) for point in points)
    return start, groups


def _over_ranks(history: History, reading: Reading, start: float, end: float) -> Iterator[tuple[str, list[Value]]]:
    """The lowest, median and highest value of all ranks at each moment: 512 curves show nothing."""
    by_moment: dict[int, list[Point]] = {}
    width = (end - start) / POINTS
    for series in history.several(reading.name, history.ranks, start, end, POINTS).values():
        for point in series:
            by_moment.setdefault(int((point.time - start) / width), []).append(point)
    moments = [by_moment[each] for each in sorted(by_moment)]
    yield LOWEST, [_value(reading, points[0], min(each.low for each in points), start) for points in moments]
    yield MIDDLE, [_value(reading, points[0], median(each.mean for each in points), start) for points in moments]
    yield HIGHEST, [_value(reading, points[0], max(each.high for each in points), start) for points in moments]


def _value(reading: Reading, point: Point, value: float, start: float) -> Value:
    return Value(reading, point.time, max(0, int(point.time - start)), value)
