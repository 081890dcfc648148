# SPDX-License-Identifier: Apache-2.0
"""What was measured in a run as curves for TensorBoard: over all ranks, and for each host and GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from keepstep.base.safe_files import make_private, write_whole
from keepstep.errors import UserError
from keepstep.export.event_file import Scalar, event_file
from keepstep.store.history.reader import History, Point, open_history
from keepstep.store.history.readings import GPU, HOST, RANK, READINGS

POINTS = 1000
LOWEST, MIDDLE, HIGHEST = "ranks-lowest", "ranks-median", "ranks-highest"
LINK = "keepstep-run.txt"
"""Names the run's folder, for the tab in TensorBoard."""


def write_curves(run: Path, folder: Path) -> list[Path]:
    """Write a folder per group of ranks and per host below ``folder``; a run gives the same files each time."""
    history = open_history(run)
    start, end = history.span
    if end <= start:
        raise UserError(f"{run} has no history", hint="`keepstep run` and the guard's companion write one")
    groups: dict[str, list[Scalar]] = {}
    for each in READINGS.values():
        if each.of == RANK and each.name != "phase":
            for group, scalars in _over_ranks(history, each.name, start, end):
                groups.setdefault(group, []).extend(scalars)
        elif each.of in (HOST, GPU):
            for subject in history.hosts if each.of == HOST else history.gpus:
                points = history.series(each.name, subject, start, end, POINTS)
                groups.setdefault(subject, []).extend(_scalar(each.name, point, point.mean, start) for point in points)
    make_private(folder)
    write_whole(folder / LINK, str(run.resolve()).encode())
    written = []
    for group, scalars in groups.items():
        place = folder / group.replace("/", "-").replace(" ", "-")
        make_private(place)
        path = place / f"events.out.tfevents.{int(start)}.keepstep"
        write_whole(path, b"".join(event_file(start, scalars)))
        written.append(path)
    return written


def _over_ranks(history: History, reading: str, start: float, end: float) -> Iterator[tuple[str, list[Scalar]]]:
    """The lowest, median and highest value of all ranks at each moment: 512 curves show nothing."""
    by_moment: dict[int, list[Point]] = {}
    width = (end - start) / POINTS
    for series in history.several(reading, history.ranks, start, end, POINTS).values():
        for point in series:
            by_moment.setdefault(int((point.time - start) / width), []).append(point)
    moments = [by_moment[each] for each in sorted(by_moment)]
    yield LOWEST, [_scalar(reading, points[0], min(each.low for each in points), start) for points in moments]
    yield MIDDLE, [_scalar(reading, points[0], median(each.mean for each in points), start) for points in moments]
    yield HIGHEST, [_scalar(reading, points[0], max(each.high for each in points), start) for points in moments]


def _scalar(reading: str, point: Point, value: float, start: float) -> Scalar:
    """TensorBoard wants a step: the seconds since the run began."""
    unit = READINGS[reading].unit
    return Scalar(f"{reading} ({unit})" if unit else reading, point.time, max(0, int(point.time - start)), value)
