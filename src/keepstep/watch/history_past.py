# SPDX-License-Identifier: Apache-2.0
"""The past of a run by its history: hours and thousands of ranks, in tiles that the page's pixels are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keepstep.signals.blackbox import BoxPhase
from keepstep.store.history.reader import IDLE_AT_MOST, WAIT_SHARES, History, Newest
from keepstep.store.history.readings import GPU, HOST, READINGS
from keepstep.watch.past import WAITS, WORDS, Cell, Grid, Point, pack
from keepstep.watch.rank_boxes import STEPS, STUCK_S, STUCK_STEPS
from keepstep.watch.run_view import RankView

STUCK_SHARE = 0.99
STUCK_COLUMNS = 2
"""A rank that has waited for all of so many columns in a row, in a step or for a batch, is stuck."""
MOST_SUBJECTS = 8
OLD_S = 30.0
"""Of a rank that was measured before that, and not since, nobody knows whether it lives."""
_CELL_OF_PHASE = bytes(phase + 1 if phase < len(BoxPhase) else 0 for phase in range(256))
_STEP_OF_WAIT = bytes(pack(0, share) for share in WAIT_SHARES)
_PHASES: dict[float | None, BoxPhase] = {float(each): each for each in BoxPhase}


class HistoryPast:
    """``of``: the ranks whose series are of interest; of the others only the slowest is."""

    def __init__(self, history: History, of: tuple[int, ...], end: float, *, live: bool = False) -> None:
        """``live``: its last attempt goes on. What other hosts measured may be on its way."""
        self._history, self._of, self._end, self._live = history, of, end, live

    @property
    def span(self) -> tuple[float, float]:
        start, end = self._history.span
        return start, max(end, min(self._end, end + 3600.0))

    def grid(self, start: float, end: float, columns: int) -> Grid:
        found = self._history.grid(start, end, columns)
        width = max(end - start, 1e-9) / columns
        spans = [(int((a - start) / width), int((b - start) / width), 1) for _, a, b in self._history.attempts]
        if spans and self._live:
            spans[-1] = *spans[-1][:2], max(1, int(OLD_S / width))
        rows = []
        for phases, waits in zip(found.phase, found.wait, strict=True):
            cells = _either(phases.translate(_CELL_OF_PHASE), waits.translate(_STEP_OF_WAIT))
            if WAIT_SHARES[max(waits, default=0)] >= STUCK_SHARE or 0 in cells:
                cells = _with_stops(cells, [(max(0, a), min(columns - 1, b), least) for a, b, least in spans])
            rows.append(cells)
        return Grid(tuple(found.ranks), start, end, tuple(rows))

    def series(self, name: str, start: float, end: float, points: int) -> dict[str, list[Point]]:
        kind = READINGS[name].of
        subjects: list[int | str] = (
            list(self._history.hosts) if kind == HOST else list(self._history.gpus) if kind == GPU else [*self._ranks()]
        )
        found = self._history.several(name, subjects[:MOST_SUBJECTS], start, end, points)
        return {who if isinstance(who, str) else f"rank {who}": series for who, series in found.items() if series}

    def _ranks(self) -> list[int]:
        """Those of interest, and the first ones."""
        ranks = self._history.ranks
        return list(dict.fromkeys([*(rank for rank in self._of if rank in set(ranks)), *ranks[:4]]))


def ranks_in(newest: Mapping[int | str, Newest], blamed: set[int], at: float, is_live: bool) -> list[RankView]:
    """The ranks as the history shows them last."""
    latest = at if is_live else max((each.at for each in newest.values()), default=at)
    return [_rank(rank, each, latest, blamed, at, is_live) for rank, each in newest.items() if isinstance(rank, int)]


def _rank(rank: int, each: Newest, latest: float, blamed: set[int], at: float, is_live: bool) -> RankView:
    value = {name: value for name, (value, _) in each.values.items()}
    quiet, step_s = value.get("quiet_s", 0.0), value.get("step_s")
    phase = _PHASES.get(value.get("phase"))
    silent = phase in STEPS and quiet > max(STUCK_S, STUCK_STEPS * (step_s or 0.0))
    is_old = latest - each.at > OLD_S
    idle = min(1.0 - value["busy"], IDLE_AT_MOST) if phase in STEPS and "busy" in value else None
    return RankView(
        rank=rank,
        host=each.host,
        state="gone" if is_old else "silent" if silent else "alive" if is_live else "ended",
        phase=phase.words if phase is not None else WORDS[Cell.UNKNOWN],
        steps=int(value.get("step", 0)),
        step_s=step_s,
        wait=max((each for each in (value.get("wait"), idle) if each is not None), default=None),
        memory_bytes=value.get("memory"),
        age_s=max(0.0, at - each.at),
        quiet_s=quiet + max(0.0, at - each.at),
        blamed=rank in blamed,
    )


def with_readings(box: RankView, newest: Newest) -> RankView:
    """With what only the history knows."""
    last = newest.values
    steps, step_s, memory = (last.get(name, (None, 0.0))[0] for name in ("step", "step_s", "memory"))
    return replace(
        box,
        steps=max(box.steps, int(steps or 0)),
        step_s=box.step_s if box.step_s is not None else step_s,
        memory_bytes=memory,
    )


def _either(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") | int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _with_stops(row: bytes, attempts: list[tuple[int, int, int]]) -> bytes:
    cells = bytearray(cell if cell & 15 else 0 for cell in row)
    _mark_stuck(cells)
    for begin, until, least in attempts:
        _mark_gone(cells, begin, until, least)
    return bytes(cells)


def _mark_stuck(cells: bytearray) -> None:
    """Waiting all the time for long is no wait any more."""
    begin = None
    for place in range(len(cells) + 1):
        cell = cells[place] if place < len(cells) else 0
        waits = (cell & 15) - 1 in STEPS and cell >> 4 >= int(WAITS * STUCK_SHARE)
        if waits and begin is None:
            begin = place
        elif not waits and begin is not None:
            if place - begin > STUCK_COLUMNS:
                cells[begin:place] = bytes([pack(Cell.STUCK, 1.0)]) * (place - begin)
            begin = None


def _mark_gone(cells: bytearray, begin: int, until: int, least: int) -> None:
    """A rank that was there, and of which nothing is known up to the end of its attempt: for longer than ``least``."""
    seen = [place for place in range(begin, until + 1) if cells[place]]
    last = seen[-1] if seen else None
    if last is not None and last < until - least and cells[last] & 15 != Cell.END:
        cells[last + 1 : until + 1] = bytes([pack(Cell.GONE, None)]) * (until - last)
