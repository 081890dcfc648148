# SPDX-License-Identifier: Apache-2.0
"""The picture of a plan: which part of the data each rank gets."""

from __future__ import annotations

from keepstep.check.data.plan.types import Plan, Share
from keepstep.model.facts.plan import ShareSeen
from keepstep.render.rank_shares import FULL, LITTLE, NONE, beside, render_shares

CELLS = 48
LEAST_CELLS = 12


def picture(plan: Plan, width: int = 100) -> str:
    """One line per rank for a terminal of ``width`` columns; a ruler of the files where they are few."""
    cells = max(LEAST_CELLS, min(width - beside(shares_seen(plan, 1)), plan.records))
    shares = shares_seen(plan, cells)
    lost = _lost(plan, cells) if plan.unseen else []
    ruler = _ruler(plan, cells)
    head = f"who would be fed what, by {plan.policy} ({FULL} all of a piece, {LITTLE} a little, {NONE} nothing):"
    return f"{head}\n" + (f"{ruler}\n" if ruler else "") + render_shares(shares, lost)


def shares_seen(plan: Plan, cells: int = CELLS) -> tuple[ShareSeen, ...]:
    """What each rank gets, as facts."""
    return tuple(
        ShareSeen(
            policy=plan.policy,
            of_rank=each.rank,
            records=each.records,
            steps=each.steps,
            dropped=each.dropped,
            cells=_cells(each, plan.records, cells),
            shuffled=plan.split.shuffled,
        )
        for each in plan.shares
    )


def _bounds(records: int, cells: int) -> list[tuple[int, int]]:
    return [
        (cell * records // cells, max((cell + 1) * records // cells, cell * records // cells + 1))
        for cell in range(cells)
    ]


def _cells(share: Share, records: int, cells: int) -> tuple[int, ...]:
    runs = [run for stream in share.streams for run in stream]
    if not records:
        return (0,) * cells
    found = []
    for start, stop in _bounds(records, cells):
        inside = min(sum(_inside(run, start, stop) for run in runs), stop - start)
        found.append(max(1, 100 * inside // (stop - start)) if inside else 0)
    return tuple(found)


def _inside(run: range, start: int, stop: int) -> int:
    """How many of a run's records lie from ``start`` to before ``stop``."""
    if run.stop <= start or run.start >= stop:
        return 0
    first = run.start if run.start >= start else start + (run.start - start) % run.step
    return len(range(first, min(stop, run.stop), run.step))


def _lost(plan: Plan, cells: int) -> list[int]:
    """How many records of each piece no rank gets."""
    runs = [run for share in plan.shares for stream in share.streams for run in stream]
    return [
        max(0, stop - start - sum(_inside(run, start, stop) for run in runs))
        for start, stop in _bounds(plan.records, cells)
    ]


def _ruler(plan: Plan, cells: int) -> str:
    """Where each file begins, if every file has room for its mark."""
    starts, at = [], 0
    for each in plan.asked.files:
        starts.append(at * cells // max(plan.records, 1))
        at += each.records
    if plan.split.shuffled or not 1 < len(starts) <= cells // 3 or len(set(starts)) < len(starts):
        return ""
    marks = [" "] * cells
    for place in starts:
        marks[min(place, cells - 1)] = "|"
    return f"files     {''.join(marks)} {len(starts)} files"
