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
    number = run.attempt_at(at)
    folder = run.attempt_folder(number)
    box = run.box_of(rank, number)
    log = next(iter([*folder.glob(f"rank{rank}.log"), *folder.glob(f"node*/rank{rank}.log")]), None)
    return Moment(
        rank=rank,
        at=at,
        attempt=number,
        readings=tuple(_readings(box, at)) if box is not None else (),
        log=log.name if log is not None else "",
        lines=_lines(log, at) if log is not None else (),
        stacks=tuple(_stacks(folder, rank, at))[:MOST_STACKS],
    )


def _readings(box: RankBox, at: float) -> Iterator[tuple[str, str]]:
    yield "host", box.host
    doing = next((cell for begin, until, cell in box.phases() if begin <= at <= until), None)
    yield "doing", WORDS[doing] if doing is not None else "nothing recorded"
    steps = [record for record in box.box.records if record.kind == RecordKind.STEP and box.at(record.at) <= at]
    if steps:
        yield "steps done", str(steps[-1].value)
        yield "its last step", f"took {duration(steps[-1].extra / 1e9)}, {duration(at - box.at(steps[-1].at))} before"
    wait = next((share for begin, until, share in box.waits() if begin <= at <= until), None)
    if wait is not None:
        yield "waiting", f"{wait:.0%} of the time"
    if at > box.last + 3.0:
        yield "last sign of life", f"{duration(at - box.last)} before"


def _lines(log: Path, at: float) -> tuple[str, ...]:
    """Those that had arrived around the time; where that is not known, the last ones."""
    place = _arrived(log, at)
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


def _arrived(log: Path, at: float) -> int | None:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        with open_regular(log.with_name(ARRIVALS), follow=False) as stream:
            marks = foreign_json.loads(stream.read(MOST_BYTES))["logs"][log.name]["marks"]
        found = sorted((float(time), int(offset)) for offset, time in marks)
        return found[max(0, bisect_right(found, (at, 1 << 62)) - 1)][1]
    return None


def _stacks(folder: Path, rank: int, at: float) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Those taken nearest to the time."""
    names = ("stacks.jsonl", "node*/stacks.jsonl", f"**/rank{rank}-*.notes.jsonl")
    found = [each for name in names for path in folder.glob(name) for each in _dumps(path, rank)]
    if not found:
        return
    nearest = min(abs(taken - at) for taken, _ in found)
    for taken, fields in found:
        frames = [_frame(each) for each in fields.get("frames") or () if isinstance(each, dict)][:MOST_FRAMES]
        if abs(taken - at) <= nearest + 2.0 and frames:
            after = taken - at
            when = f"{duration(abs(after))} {'later' if after > 0 else 'before'}" if abs(after) >= 1 else "then"
            yield f"{redact(str(fields.get('thread') or 'thread'))}, {when}", tuple(frames)


def _dumps(path: Path, rank: int) -> Iterator[tuple[float, dict[str, Any]]]:
    with contextlib.suppress(OSError), open_regular(path, follow=False) as stream:
        for line in stream.read(MOST_BYTES).split(b"\n"):
            if b'"StackDump"' not in line[:80]:
                continue
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                said = foreign_json.loads(line)
                if said["rank"]["index"] == rank and isinstance(said["fields"], dict):
                    yield float(said["at"]), said["fields"]


def _frame(each: dict[str, Any]) -> str:
    function = called(str(each.get("function") or "?"))
    place = each.get("file") or each.get("library") or ""
    line = f":{each['line']}" if type(each.get("line")) is int else ""
    return redact(f"{function}  {place}{line}"[:LONGEST_LINE])
