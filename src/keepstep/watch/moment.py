# SPDX-License-Identifier: Apache-2.0
"""One rank at one time: what it did, the lines of its log around it, and the stacks that were taken nearest to it."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstep.base import foreign_json
from keepstep.base.redact import redact
from keepstep.base.safe_files import open_regular
from keepstep.base.wording import called, duration
from keepstep.signals.blackbox import RecordKind
from keepstep.sources.recorded.line_arrivals import NAME as ARRIVALS
from keepstep.watch.look import RunLook
from keepstep.watch.past import WORDS
from keepstep.watch.rank_boxes import RankBox

BEFORE, AFTER = 6000, 3000
"""Bytes of the log around the time."""
MOST_LINES, LONGEST_LINE = 40, 400
MOST_STACKS, MOST_FRAMES = 6, 40
MOST_BYTES = 32 << 20


@dataclass(frozen=True)
class Moment:
    rank: int
    at: float
    attempt: int
    readings: tuple[tuple[str, str], ...]
    log: str
    """Its name; empty if there is none."""
    lines: tuple[str, ...]
    stacks: tuple[tuple[str, tuple[str, ...]], ...]
    """Of each thread: which one and when, and its frames from the innermost."""


def moment(run: RunLook, rank: int, at: float) -> Moment:
    """A rank at a time, as far as anything is known."""
    return RankMoments(run, rank, run.attempt_at(at)).at(at)


class RankMoments:
    """One rank in one attempt. What lies in its folder is read once, for any number of moments."""

    def __init__(self, run: RunLook, rank: int, attempt: int) -> None:
        folder = run.attempt_folder(attempt)
        self._rank, self._attempt = rank, attempt
        self._box = box = run.box_of(rank, attempt)
        self._log = next(iter([*folder.glob(f"rank{rank}.log"), *folder.glob(f"node*/rank{rank}.log")]), None)
        self._marks = _marks(self._log) if self._log is not None else []
        self._excerpts: dict[int | None, tuple[str, ...]] = {}
        names = ("stacks.jsonl", "node*/stacks.jsonl", f"**/rank{rank}-*.notes.jsonl")
        dumps = [each for name in names for path in folder.glob(name) for each in _dumps(path, rank)]
        self._dumps = [(taken, redact(who), frames) for taken, fields in dumps for who, frames in _frames(fields)]
        self._phases = list(box.phases()) if box is not None else []
        self._waits = list(box.waits()) if box is not None else []
        records = box.box.records if box is not None else ()
        self._steps = [record for record in records if record.kind == RecordKind.STEP]
        self._stepped = [box.at(record.at) for record in self._steps] if box is not None else []

    def at(self, at: float) -> Moment:
        return Moment(
            rank=self._rank,
            at=at,
            attempt=self._attempt,
            readings=tuple(self._readings(self._box, at)) if self._box is not None else (),
            log=self._log.name if self._log is not None else "",
            lines=self._lines(at),
            stacks=tuple(self._stacks(at))[:MOST_STACKS],
        )

    def _readings(self, box: RankBox, at: float) -> Iterator[tuple[str, str]]:
        yield "host", box.host
        doing = next((cell for begin, until, cell in self._phases if begin <= at <= until), None)
        yield "doing", WORDS[doing] if doing is not None else "nothing recorded"
        done = bisect_right(self._stepped, at)
        if done:
            step, stepped = self._steps[done - 1], self._stepped[done - 1]
            yield "steps done", str(step.value)
            yield "its last step", f"took {duration(step.extra / 1e9)}, {duration(at - stepped)} before"
        wait = next((share for begin, until, share in self._waits if begin <= at <= until), None)
        if wait is not None:
            yield "waiting", f"{wait:.0%} of the time"
        if at > box.last + 3.0:
            yield "last sign of life", f"{duration(at - box.last)} before"

    def _lines(self, at: float) -> tuple[str, ...]:
        """Those that had arrived around the time; where that is not known, the last ones."""
        if self._log is None:
            return ()
        place = self._marks[max(0, bisect_right(self._marks, (at, 1 << 62)) - 1)][1] if self._marks else None
        if place not in self._excerpts:
            self._excerpts[place] = _excerpt(self._log, place)
        return self._excerpts[place]

    def _stacks(self, at: float) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Those taken nearest to the time."""
        nearest = min((abs(taken - at) for taken, _, _ in self._dumps), default=0.0)
        for taken, who, frames in self._dumps:
            if abs(taken - at) <= nearest + 2.0:
                after = taken - at
                when = f"{duration(abs(after))} {'later' if after > 0 else 'before'}" if abs(after) >= 1 else "then"
                yield f"{who}, {when}", frames


def _excerpt(log: Path, place: int | None) -> tuple[str, ...]:
    try:
        with open_regular(log, follow=False) as stream:
            length = stream.seek(0, 2)
            middle = length if place is None else min(place, length)
            begin = stream.seek(max(0, middle - BEFORE))
            data = stream.read(middle - begin + AFTER)
    except OSError:
        return ()
    before = data[: middle - begin].count(b"\n")
    text = redact(data.decode("utf-8", "replace")).split("\n")
    first = max(0, before - MOST_LINES * 3 // 4)
    return tuple(line[:LONGEST_LINE] for line in text[first : first + MOST_LINES] if line.strip())


def _marks(log: Path) -> list[tuple[float, int]]:
    """How much of the log had arrived, and when."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        with open_regular(log.with_name(ARRIVALS), follow=False) as stream:
            marks = foreign_json.loads(stream.read(MOST_BYTES))["logs"][log.name]["marks"]
        return sorted((float(time), int(offset)) for offset, time in marks)
    return []


def _dumps(path: Path, rank: int) -> Iterator[tuple[float, dict[str, Any]]]:
    with contextlib.suppress(OSError), open_regular(path, follow=False) as stream:
        for line in stream.read(MOST_BYTES).split(b"\n"):
            if b'"StackDump"' not in line[:80]:
                continue
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                said = foreign_json.loads(line)
                if said["rank"]["index"] == rank and isinstance(said["fields"], dict):
                    yield float(said["at"]), said["fields"]


def _frames(fields: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The thread and its frames, if there are any."""
    frames = [_frame(each) for each in fields.get("frames") or () if isinstance(each, dict)][:MOST_FRAMES]
    if frames:
        yield str(fields.get("thread") or "thread"), tuple(frames)


def _frame(each: dict[str, Any]) -> str:
    function = called(str(each.get("function") or "?"))
    place = each.get("file") or each.get("library") or ""
    line = f":{each['line']}" if type(each.get("line")) is int else ""
    return redact(f"{function}  {place}{line}"[:LONGEST_LINE])
