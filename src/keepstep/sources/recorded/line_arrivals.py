# SPDX-License-Identifier: Apache-2.0
"""When a log's lines reached `keepstep run`: most programs print no times, and ordering across ranks needs them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from keepstep.base import foreign_json
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.sources.files.left_files import LeftFile

NAME, SCHEMA = "arrivals.json", "keepstep.arrivals/1"
CHUNK, MOST_BYTES = 1 << 20, 16 << 20


@dataclass(frozen=True)
class Arrivals:
    """One log's marks: how many lines were complete, and when. The oldest marks of a long log are dropped."""

    lines: tuple[int, ...]
    times: tuple[float, ...]
    whole: bool
    """Whether the first mark is of the first line."""

    def at(self, line: int) -> float | None:
        """When this line was complete; None if that was before the marks begin."""
        place = bisect_left(self.lines, line)
        if place == 0 and not self.whole:
            return None
        return self.times[min(place, len(self.times) - 1)]


def with_arrivals(
    evidence: Sequence[Evidence[Fact]], marks: Iterable[LeftFile], logs: Sequence[LeftFile]
) -> list[Evidence[Fact]]:
    """The evidence from logs, with its line's arrival time if the line itself gives none."""
    known = {name: arrivals for left in marks for name, arrivals in _read(left, logs).items()}
    if not known:
        return list(evidence)
    return [
        _timed(e, known[e.origin.source].at(e.origin.line))
        if (e.at is None or e.later_s) and e.origin.line and e.origin.source in known
        else e
        for e in evidence
    ]


def _timed(each: Evidence[Fact], arrived: float | None) -> Evidence[Fact]:
    """With the time at which it arrived, if that is not before the line above it was written."""
    if arrived is None or (each.at is not None and not each.at <= arrived <= each.at + each.later_s):
        return each
    return replace(each, at=arrived, later_s=0.0)


def _read(left: LeftFile, logs: Sequence[LeftFile]) -> dict[str, Arrivals]:
    found: dict[str, Arrivals] = {}
    if left.path is None:
        return found
    try:
        with left.open() as stream:
            said = foreign_json.loads(stream.read(MOST_BYTES))["logs"]
        for log in logs:
            if log.path is not None and log.path.parent == left.path.parent and log.path.name in said:
                marks = [_mark(offset, at) for offset, at in said[log.path.name]["marks"]]
                if marks:
                    lines = _lines_before(log, [offset for offset, _ in marks])
                    found[log.name] = Arrivals(
                        lines, tuple(at for _, at in marks), said[log.path.name]["whole"] is True
                    )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return found
    return found


def _mark(offset: object, at: object) -> tuple[int, float]:
    if type(offset) is not int or type(at) not in (int, float) or abs(at) > 1e11:  # type: ignore[arg-type]
        raise ValueError("no offset, or no time")
    return offset, float(at)  # type: ignore[arg-type]


def _lines_before(log: LeftFile, offsets: list[int]) -> tuple[int, ...]:
    """How many lines are complete before each of the rising offsets."""
    counts, lines, place = [], 0, 0
    with log.open() as stream:
        for offset in offsets:
            while place < offset and (piece := stream.read(min(CHUNK, offset - place))):
                lines, place = lines + piece.count(b"\n"), place + len(piece)
            counts.append(lines)
    return tuple(counts)
