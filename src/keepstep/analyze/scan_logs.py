# SPDX-License-Identifier: Apache-2.0
"""Scan many logs, on all cores if there is enough to read."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keepstep.analyze.load_tables import known
from keepstep.base.wording import count, size
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.parse.scan.knowledge import Knowledge
from keepstep.parse.scan.lines.introduction import Introduction
from keepstep.parse.scan.lines.line_count import LARGE, count_fast
from keepstep.parse.scan.lines.line_times import UNDATED, Dates
from keepstep.parse.scan.log_end import WHOLE
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.patience import PER_FILE_S, LogPatience
from keepstep.parse.scan.sighting import Scanned, Sighting
from keepstep.sources.files.file_search import promise, some
from keepstep.sources.files.left_files import Chunks, LeftFile

if TYPE_CHECKING:
    from keepstep.extend.search_apart import UsersSignature

WORTH_A_PROCESS = 16 << 20
GROUP = 4 << 20
"""How much is handed over to another process at a time."""
FOR_PROGRESS = 8 << 20
"""How much of all logs together may be read for progress; where there are more, only their ends are."""
PART = 128 << 20

Tell = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


@dataclass(frozen=True, slots=True)
class _Part:
    index: int
    left: LeftFile
    begin: int
    end: int | None
    patience_s: float
    whole: int
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class _Done:
    index: int
    begin: int
    sightings: tuple[Sighting, ...]
    lines: int
    size: int
    problem: str | None
    cut_lines: int
    gave_up_after_s: float | None
    stopped: str | None
    year: int | None
    day: tuple[int, int] | None
    """The first that lines state."""
    introduced: Introduction | None = None
    given_up: tuple[tuple[str, str], ...] = ()
    """The user's signatures that took too long by then, and why."""
    all_over: bool = False
    """Not read to its end, because the time for all logs was over."""
    holes: int = 0


_knowledge: Knowledge | None = None
_users: tuple[UsersSignature, ...] = ()
"""Of them, the signatures that the user wrote."""


def scan_logs(
    files: list[LeftFile],
    knowledge: Knowledge | None = None,
    tell: Tell = lambda n: None,
    meanwhile: Callable[[], object] = lambda: None,
    patience_s: float = PER_FILE_S,
    until: float = math.inf,
) -> tuple[list[Scanned], list[Coverage]]:
    """Every log's sightings, in the order of the files, and what went wrong while reading.

    ``meanwhile`` runs while other processes read, if they do. Reading a log stops after ``patience_s`` plus one second
    per megabyte, reading all of them at ``until``, by ``time.monotonic``.
    """
    global _knowledge, _users
    _knowledge = knowledge or known()
    _users = _users_in(knowledge) if knowledge is not None else ()
    whole = min(WHOLE, FOR_PROGRESS // max(len(files), 1))
    parts = [part for index, left in enumerate(files) for part in _split(index, left, patience_s, whole, until)]
    if sum(left.stored for left in files) > WORTH_A_PROCESS:
        parts.sort(key=lambda part: promise(part.left))  # the time may be over before all are read
    done: list[list[_Done]] = [[] for _ in files]
    for part in _run(parts, tell, meanwhile):
        done[part.index].append(part)
    years = {d.year for mine in done for d in mine if d.year}
    days = {d.day for mine in done for d in mine if d.day}
    results: list[Scanned] = []
    coverage: list[Coverage] = []
    for left, mine in zip(files, done, strict=True):
        mine.sort(key=lambda d: d.begin)
        dates = Dates(
            left.modified or time.time(),
            next((d.year for d in mine if d.year), min(years) if len(years) == 1 else None),
            next((d.day for d in mine if d.day), min(days) if len(days) == 1 else None),
        )
        results.append(Scanned(left.name, tuple(_joined(mine, dates)), mine[0].introduced if mine else None))
        for problem in {d.problem: None for d in mine if d.problem}:
            coverage.append(Coverage(what=left.name, state=CoverageState.PARTLY, why=problem))
        coverage += [Coverage(what=left.name, state=CoverageState.PARTLY, why=why) for why in _not_read(mine)]
    coverage += _about_all(files, done)
    for name, why in dict(sorted(each for mine in done for d in mine for each in d.given_up)).items():
        coverage.append(Coverage(what=f"your signature {name}", state=CoverageState.PARTLY, why=why))
    for each in _users:
        each.apart.end()
    return results, coverage


def _about_all(files: list[LeftFile], done: list[list[_Done]]) -> Iterator[Coverage]:
    late = [left.name for left, mine in zip(files, done, strict=True) if any(d.all_over for d in mine)]
    if late:
        what = f"{len(late):,} of {count(len(files), 'log')} ({some(late)})"
        why = "not read to the end: the time for all of them was over; --seconds allows more"
        yield Coverage(what=what, state=CoverageState.PARTLY, why=why)
    holes = {left.name: sum(d.holes for d in mine) for left, mine in zip(files, done, strict=True)}
    skipped = [name for name, number in holes.items() if number]
    if skipped:
        what = f"{size(sum(holes.values()))} of holes in {some(skipped)}, skipped"
        yield Coverage(what=what, state=CoverageState.CHECKED, why="nothing was ever written there")


def _users_in(knowledge: Knowledge) -> tuple[UsersSignature, ...]:
    from keepstep.extend.search_apart import users_signatures

    return tuple(users_signatures(knowledge.signatures))


def _not_read(parts: list[_Done]) -> Iterator[str]:
    """What was left out of a log because it took too long or was too much."""
    yield from {part.stopped: None for part in parts if part.stopped}
    gave_up = [part for part in parts if part.gave_up_after_s is not None and not part.all_over]
    if gave_up:
        took = sum(part.gave_up_after_s or 0 for part in gave_up)
        read = sum(part.size for part in parts)
        yield (f"stopped after {took:.0f} s of processor time with {size(read)} read; --seconds-per-file allows more")
    cut = sum(part.cut_lines for part in parts)
    if cut:
        yield f"{count(cut, 'long line')} held too much to search completely"


def _joined(parts: list[_Done], dates: Dates) -> Iterator[Sighting]:
    """Lines counted from the first of the file, and times on the date that the file or other files state."""
    above = 0
    for part in parts:
        for sighting in part.sightings:
            at = None if sighting.at is None else dates.dated(sighting.at)
            yield sighting._replace(line=sighting.line + above, at=at) if above or at != sighting.at else sighting
        above += part.lines


def _run(parts: list[_Part], tell: Tell, meanwhile: Callable[[], object]) -> Iterator[_Done]:
    total = sum(_amount(part) for part in parts)
    if total > LARGE:
        count_fast()
    (_knowledge or known()).finder.expect(total)
    cores = _cores()
    if total < WORTH_A_PROCESS or cores < 2 or len(parts) < 2:
        for part in parts:
            result = _scan(part)
            tell(result.size)
            yield result
        return
    from keepstep.base.forked_calls import ForkedCalls

    groups = _grouped(parts)
    for result in ForkedCalls(min(cores, len(groups)), _scan, _lost).results(groups, meanwhile):
        tell(result.size)
        yield result


def _lost(part: _Part, status: int | None) -> _Done:
    why = f"its reader ended unexpectedly (status {status})"
    return _Done(part.index, part.begin, (), 0, 0, why, 0, None, None, None, None)


def _cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _grouped(parts: list[_Part]) -> list[list[_Part]]:
    """Small files together, so work is handed over in pieces of a few megabytes."""
    groups: list[list[_Part]] = [[]]
    size = 0
    for part in parts:
        if size > GROUP:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += _amount(part)
    return groups


def _amount(part: _Part) -> int:
    """How many bytes it has to read; holes cost nothing."""
    whole = len(part.left.data) if part.left.data is not None else part.left.stored
    return whole if part.end is None else min(part.end - part.begin, whole)


def _scan(part: _Part) -> _Done:
    if time.monotonic() > part.until:
        return _Done(part.index, part.begin, (), 0, 0, None, 0, None, None, None, None, all_over=True)
    patience = LogPatience(part.patience_s, until=part.until)
    scan = LogScan(_knowledge or known(), year=UNDATED, day=(1, 1), patience=patience, whole=part.whole)
    chunks = Chunks(part.left, part.begin, part.end)
    sightings = tuple(scan.scan(chunks))
    return _Done(
        part.index,
        part.begin,
        sightings,
        scan.lines,
        scan.bytes,
        chunks.problem,
        len(patience.cut_lines),
        patience.gave_up_after_s,
        chunks.stopped,
        *scan.date_read,
        scan.introduced if part.begin == 0 else None,
        tuple((each.name, each.apart.given_up) for each in _users if each.apart.given_up),
        patience.all_over,
        chunks.holes,
    )


def _split(index: int, left: LeftFile, patience_s: float, whole: int, until: float) -> list[_Part]:
    """A large plain file in parts, split at line ends; everything else whole."""
    alone = [_Part(index, left, 0, None, patience_s, whole, until)]
    if left.path is None or left.stored < 2 * PART:
        return alone
    cuts = [0]
    part = max(PART, left.size // _cores() + 1)
    try:
        with left.open() as stream:
            if stream.read(4)[:2] in (b"\x1f\x8b", b"\x28\xb5", b"BZ", b"\xfd7"):
                return alone
            for place in range(part, left.size - part // 2, part):
                stream.seek(place)
                stream.readline(16 << 20)
                if stream.tell() < left.size:
                    cuts.append(stream.tell())
    except OSError:
        return alone
    ends = [*cuts[1:], left.size]
    return [_Part(index, left, begin, end, patience_s, whole, until) for begin, end in zip(cuts, ends, strict=True)]
