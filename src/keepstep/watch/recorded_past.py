# SPDX-License-Identifier: Apache-2.0
"""The past of a run by its black boxes, as long as they hold all of it: finer than the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keepstep.watch.past import Cell, Grid, Past, Point, pack, thin
from keepstep.watch.rank_boxes import RankBox

GONE_S = 0.3


class RecordedPast:
    """``boxes``: by attempt. ``ended``: when each attempt ended; None: it goes on. ``history``: for all but steps."""

    def __init__(
        self, boxes: Mapping[int, Sequence[RankBox]], ended: Mapping[int, float | None], now: float, history: Past
    ) -> None:
        self._boxes, self._ended, self._now, self._history = boxes, ended, now, history

    @property
    def span(self) -> tuple[float, float]:
        began = [each.began for some in self._boxes.values() for each in some]
        ends = [each.last for some in self._boxes.values() for each in some]
        ends += [self._now if end is None else end for end in self._ended.values()]
        return min(began, default=self._now - 1.0), max(ends, default=self._now)

    def grid(self, start: float, end: float, columns: int) -> Grid:
        ranks = sorted({each.rank for some in self._boxes.values() for each in some})
        rows = {rank: bytearray(columns) for rank in ranks}
        scale = columns / max(end - start, 1e-9)

        def cut(begin: float, until: float) -> range:
            first, last = int((begin - start) * scale), int((until - start) * scale)
            return range(max(0, first), min(columns - 1, last) + 1)

        for some in self._boxes.values():
            # those that were ended with the attempt were not gone before
            latest = max((each.now if each.alive else each.last for each in some), default=0.0)
            for each in some:
                row, waits = rows[each.rank], {}
                for begin, until, wait in each.waits():
                    waits.update(dict.fromkeys(cut(begin, until), wait))
                longest: dict[int, float] = {}
                for begin, until, cell in each.phases():
                    for place in cut(begin, until):
                        inside = min(until, start + (place + 1) / scale) - max(begin, start + place / scale)
                        if inside >= longest.get(place, 0.0):
                            longest[place] = inside
                            row[place] = pack(cell, waits.get(place))
                if not each.alive and not each.ended_well and latest - each.last > GONE_S:
                    for place in cut(each.last, latest):
                        row[place] = pack(Cell.GONE, None)
        return Grid(tuple(ranks), start, end, tuple(bytes(rows[rank]) for rank in ranks))

    def series(self, name: str, start: float, end: float, points: int) -> dict[str, list[Point]]:
        if name == "step_s":
            steps = [step for some in self._boxes.values() for each in some for step in each.step_times()]
            return {"all ranks": thin(steps, start, end, points)}
        return self._history.series(name, start, end, points)
