# SPDX-License-Identifier: Apache-2.0
"""What the page is given about a run, as JSON: the view, the past, one moment. All text in it is shown as text."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

from keepstep.base.visible import visible
from keepstep.watch.look import RunLook
from keepstep.watch.moment import Moment, moment
from keepstep.watch.past import WORDS, Cell, Past, Point, fold
from keepstep.watch.run_view import RunView

COLUMNS, ROWS, POINTS = 480, 384, 240
COARSE_S, FEWEST, MUCH = 600.0, 96, 1e8
"""The width of coarse tiles, how many make a picture, and from how many seconds of ranks on they are taken."""
MOST_RANKS, MOST_HOSTS, MOST_LINES_DRAWN = 200, 32, 6
CHARTS = (
    ("loss", "loss", ""),
    ("step_s", "time of a step", "s"),
    ("memory", "memory of ranks", "bytes"),
    ("host_memory_share", "memory of hosts in use", "share"),
    ("gpu_memory_share", "memory of GPUs in use", "share"),
    ("gpu_busy", "time in which GPUs ran a kernel", "share"),
    ("tpu_memory_share", "memory of TPUs in use", "share"),
    ("tpu_busy", "time in which TPUs computed", "share"),
    ("net_in", "received from the network", "bytes/s"),
)
"""The reading, how it is called, its unit."""


def view_document(view: RunView) -> dict[str, Any]:
    """Without ranks that nobody would scroll to."""
    found = asdict(view)
    found["ranks"] = found["ranks"][:MOST_RANKS]
    found["more_ranks"] = max(0, len(view.ranks) - MOST_RANKS)
    found["hosts"] = found["hosts"][:MOST_HOSTS]
    found["more_hosts"] = max(0, len(view.hosts) - MOST_HOSTS)
    return _shown(found)


def past_document(past: Past, view: RunView) -> dict[str, Any]:
    """The heat map, reduced to pixels, and the series."""
    start, end = past.span
    end = max(end, start + 1.0)
    columns, points = _resolution(end - start, view.world)
    grid = past.grid(start, end, columns)
    cells = {cell for row in grid.rows for cell in set(row)}
    blamed = [rank for each in view.problems[:5] for rank in each.ranks]
    return _shown(
        {
            "start": start,
            "end": end,
            "columns": columns,
            "words": {str(int(cell)): WORDS[cell] for cell in Cell if any(each & 15 == cell for each in cells)},
            "rows": [
                {"first": first, "last": last, "cells": base64.b64encode(row).decode()}
                for (first, last), row in fold(grid, ROWS)
            ],
            "charts": [
                {"name": name, "unit": unit, "lines": lines}
                for reading, name, unit in CHARTS
                if (lines := _lines(past.series(reading, start, end, points), blamed))
            ],
        }
    )


def _resolution(seconds: float, ranks: int) -> tuple[int, int]:
    """Columns and points. A long past of many ranks is taken from its coarse tiles, which keep the extremes."""
    coarse = int(seconds / COARSE_S)
    return (coarse, coarse) if ranks * seconds > MUCH and coarse >= FEWEST else (COLUMNS, POINTS)


def _lines(series: dict[str, list[Point]], blamed: list[int]) -> dict[str, list[Point]]:
    """The blamed ranks, and those with the highest last value."""
    known = {who: points for who, points in series.items() if points}
    if not any(point.high or point.low for points in known.values() for point in points):
        return {}
    first = [f"rank {rank}" for rank in blamed if f"rank {rank}" in known]
    highest = sorted(known, key=lambda who: -known[who][-1].high)
    return {who: known[who] for who in list(dict.fromkeys([*first, *highest]))[:MOST_LINES_DRAWN]}


def moment_document(run: RunLook, rank: int, at: float) -> dict[str, Any]:
    return moment_shown(moment(run, rank, at))


def moment_shown(one: Moment) -> dict[str, Any]:
    return _shown(asdict(one))


def _shown(thing: dict[str, Any]) -> dict[str, Any]:
    """Control characters and marks that reverse text are spelled out."""
    return {visible(key): _part(value) for key, value in thing.items()}


def _part(thing: Any) -> Any:
    if isinstance(thing, str):
        return visible(thing)
    if isinstance(thing, dict):
        return _shown(thing)
    return [_part(each) for each in thing] if isinstance(thing, list | tuple) else thing
