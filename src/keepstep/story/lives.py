# SPDX-License-Identifier: Apache-2.0
"""The lives of a run that was started again: which evidence belongs to which. Pure.

A log is cut where a start is repeated: a restart count goes up, or the same launcher, rank or script announces itself
again after something had ended the run. Files that each hold one life are distinguished by their names. A
member that restarted alone, while the others went on, begins no new life of the run: its first death is why the others
failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.guard import RankDoing, RankEnded
from keepstep.model.facts.network import ServerStarted
from keepstep.model.facts.platform import MachineFault, Preempted
from keepstep.model.facts.process import ExceptionRaised, FatalSignal, NativeAbort, ProcessExited, TerminationRequested
from keepstep.model.facts.resource import OomKilled
from keepstep.model.facts.restarts import LifeBegan, LifeEnded
from keepstep.model.facts.training import LastOwnLine, StepSeen, StreamEnded
from keepstep.story.life_of_file import life_by_name
from keepstep.story.rank_endings import is_supervised

MOST_LIVES = 1000
LINES_OF_A_START = 100
_OF_ALL: tuple[type[Fact], ...] = (Preempted, MachineFault, LifeEnded)
"""They end every process of a run."""
_OF_ONE: tuple[type[Fact], ...] = (
    ProcessExited, TerminationRequested, FatalSignal, NativeAbort, ExceptionRaised, OomKilled,
)  # fmt: skip

_Key = tuple[str, object]


@dataclass(frozen=True)
class Life:
    """One life of a run. ``began``: what shows that it began; None for the first."""

    number: int
    seen: EvidenceSet
    began: Evidence[Fact] | None = None


@dataclass(frozen=True)
class _Cut:
    """Where a life begins in a source."""

    line: int
    began: Evidence[Fact]
    restarts: int | None = None


def lives_of(seen: EvidenceSet) -> tuple[Life, ...]:
    """The lives of the run, the first one first; empty if there is only one, or they cannot be told apart."""
    if is_supervised(seen) or any(isinstance(e.fact, RankEnded | RankDoing) for e in seen.items):
        return ()  # `keepstep run` keeps its attempts apart, and the guards their processes
    sources: dict[str, list[Evidence[Fact]]] = defaultdict(list)
    for each in seen.items:
        sources[each.origin.source].append(each)
    named = life_by_name(sources, _may_end)
    if named:
        return _of_files(seen, sources, named)
    if not _may_have_begun_again(seen):
        return ()
    cuts = {source: found for source, items in sources.items() if (found := _cuts(items))}
    return _of_cuts(seen, sources, cuts) if cuts and not _alone(sources, cuts) else ()


def lives_of_files(items: Iterable[Evidence[Fact]]) -> dict[str, int]:
    """For each source whose name says it, its life; empty if the names tell fewer than two lives apart."""
    sources: dict[str, list[Evidence[Fact]]] = defaultdict(list)
    for each in items:
        sources[each.origin.source].append(each)
    return life_by_name(sources, _may_end)


def _may_end(fact: Fact) -> bool:
    return ends_a_run(fact) or _ends_one(fact)


def _may_have_begun_again(seen: EvidenceSet) -> bool:
    kinds = (LifeBegan, LifeEnded, *(kind for kind in (WorldSeen, ServerStarted) if len(seen.all(kind)) > 1))
    return any(seen.all(kind) for kind in kinds) and any(seen.all(kind) for kind in (*_OF_ALL, *_OF_ONE, StepSeen))


class _LivesReader:
    """Reads the evidence of one source, in order, and finds where its lives begin."""

    def __init__(self) -> None:
        self.cuts: list[_Cut] = []
        self._restarts: dict[_Key, int] = {}
        self._forget()

    def _forget(self) -> None:
        self._began: dict[_Key, Evidence[Fact]] = {}
        self._ends = -1
        self._steps = -1
        self._first = True

    def read(self, each: Evidence[Fact]) -> None:
        line, fact = each.origin.line or 0, each.fact
        if ends_a_run(fact) or (_ends_one(fact) and self._steps >= 0):
            self._ends = line
        if isinstance(fact, StepSeen):
            self._steps = line
        key = _start(each)
        if key is None:
            self._first &= isinstance(fact, StreamEnded | LastOwnLine)
            return
        number = _number(fact)
        restarts = fact.restarts if isinstance(fact, LifeBegan) else None
        if self._has_just_begun(key, line):
            if restarts is not None:
                self.cuts[-1] = replace(self.cuts[-1], restarts=restarts)
        elif self._is_another(key, number):
            self.cuts.append(_Cut(line, each, restarts))
            self._forget()
        if number is not None:
            self._restarts[key] = number
        self._first = False
        self._began.setdefault(key, each)

    def _has_just_begun(self, key: _Key, line: int) -> bool:
        """Whether this is one more of the lines that a life begins with."""
        if not self.cuts or max(self._ends, self._steps) >= 0 or key in self._began:
            return False
        return line - self.cuts[-1].line <= LINES_OF_A_START

    def _is_another(self, key: _Key, number: int | None) -> bool:
        known = self._restarts.get(key)
        if number is not None and known is not None:
            return number > known
        if number is not None and number > 0 and key[0] == "counted" and not self._first and not self._began:
            return True
        before = self._began.get(key)
        return before is not None and self._ends > (before.origin.line or 0)


def _cuts(items: Sequence[Evidence[Fact]]) -> list[_Cut]:
    reader = _LivesReader()
    ordered = sorted((e for e in items if e.origin.line is not None), key=lambda e: e.origin.line or 0)
    for each in ordered:
        reader.read(each)
    cuts = reader.cuts[:MOST_LIVES]
    places = [0, *(cut.line for cut in cuts), 1 << 60]
    return [
        cut
        for number, cut in enumerate(cuts)
        if not _left_behind(ordered, places[number], cut.line, places[number + 2])
    ]


def _left_behind(items: Sequence[Evidence[Fact]], begin: int, cut: int, end: int) -> bool:
    """Whether ranks that had announced themselves go on after the cut without doing so again."""
    old = {k for e in items if begin <= (e.origin.line or 0) < cut and (k := _start(e)) is not None and k[0] == "rank"}
    later = [e for e in items if cut <= (e.origin.line or 0) < end]
    new = {k for e in later if (k := _start(e)) is not None}
    if not old & new:
        return False
    going_on = {
        ("rank", e.rank.index)
        for e in later
        if e.rank is not None and not isinstance(e.fact, StreamEnded | LastOwnLine)
    }
    return bool((old & going_on) - new)


def _start(each: Evidence[Fact]) -> _Key | None:
    """What announces itself here, if anything does."""
    fact = each.fact
    if isinstance(fact, LifeBegan):
        counts = fact.restarts is not None or fact.attempt is not None
        return ("counted" if counts else "began", f"{fact.by} {each.origin.stream}")
    if isinstance(fact, WorldSeen) and fact.index is not None:
        return ("rank", fact.index)
    return ("server", fact.address) if isinstance(fact, ServerStarted) else None


def _number(fact: Fact) -> int | None:
    if not isinstance(fact, LifeBegan):
        return None
    return fact.restarts if fact.restarts is not None else fact.attempt


def ends_a_run(fact: Fact) -> bool:
    """Whether a launcher or scheduler reports the end of a run, or of a process without which none goes on."""
    if isinstance(fact, ProcessExited):
        return bool(fact.code or fact.signal)
    if isinstance(fact, TerminationRequested):
        return fact.by in ("scheduler", "user")
    return isinstance(fact, _OF_ALL)


def _ends_one(fact: Fact) -> bool:
    return isinstance(fact, _OF_ONE) and not (isinstance(fact, ExceptionRaised) and (fact.logged or fact.caught))


def _alone(sources: Mapping[str, Sequence[Evidence[Fact]]], cuts: Mapping[str, Sequence[_Cut]]) -> bool:
    """Whether ranks with a log of their own went on while others began again."""
    moments = [cut.began.at for found in cuts.values() for cut in found if cut.began.at is not None]
    for source, items in sources.items():
        if source in cuts or not any(e.rank is not None for e in items):
            continue
        times = [e.at for e in items if e.at is not None]
        if not moments or not times or min(times) < min(moments) <= max(times):
            return True
    return False


def _of_cuts(
    seen: EvidenceSet, sources: Mapping[str, Sequence[Evidence[Fact]]], cuts: Mapping[str, Sequence[_Cut]]
) -> tuple[Life, ...]:
    """Lives are counted from the end, where logs have different numbers of them."""
    most = max(map(len, cuts.values()))
    longest = next(found for found in cuts.values() if len(found) == most)
    times = [None, *(cut.began.at for cut in longest)]

    def life(each: Evidence[Fact]) -> int:
        found, line = cuts.get(each.origin.source), each.origin.line
        if found is not None and line is not None:
            return most - len(found) + sum(cut.line <= line for cut in found)
        return _by_time(each.at, times)

    return _lives(seen, [life(each) for each in seen.items], longest)


def _by_time(at: float | None, begins: Sequence[float | None]) -> int:
    """The life at this moment; the last one if that is not known."""
    if at is None or any(each is None for each in begins[1:]):
        return len(begins) - 1
    return sum(each is not None and each <= at for each in begins)


def _of_files(
    seen: EvidenceSet, sources: Mapping[str, Sequence[Evidence[Fact]]], named: Mapping[str, int]
) -> tuple[Life, ...]:
    """A log of all lives, such as the launcher's, is cut if as many begin there; else its times decide."""
    numbers = sorted(set(named.values()))
    launchers = {source: _cuts(items) for source, items in sources.items() if source not in named}
    launchers = {source: found for source, found in launchers.items() if len(found) == len(numbers) - 1}
    first: list[Evidence[Fact] | None] = [
        next((e for e in seen.items if named.get(e.origin.source) == number), None) for number in numbers
    ]
    times = [None, *(min(_times(seen, named, number), default=None) for number in numbers[1:])]

    def life(each: Evidence[Fact]) -> int:
        source, line = each.origin.source, each.origin.line
        if source in named:
            return numbers.index(named[source])
        if source in launchers and line is not None:
            return sum(cut.line <= line for cut in launchers[source])
        return _by_time(each.at, times)

    cuts = [
        _Cut(0, replace(each, origin=Origin(source=each.origin.source)), number)
        for each, number in zip(first, numbers, strict=True)
        if each is not None
    ][1:]
    return _lives(seen, [life(each) for each in seen.items], cuts)


def _times(seen: EvidenceSet, named: Mapping[str, int], number: int) -> list[float]:
    return [e.at for e in seen.items if e.at is not None and named.get(e.origin.source) == number]


def _lives(seen: EvidenceSet, lives: Sequence[int], cuts: Sequence[_Cut]) -> tuple[Life, ...]:
    parts: list[list[Evidence[Fact]]] = [[] for _ in range(len(cuts) + 1)]
    for each, life in zip(seen.items, lives, strict=True):
        parts[life].append(each)
    for part in parts[:-1]:
        part += _ended(part)
    numbers = [cut.restarts for cut in cuts]
    counted = [n for n in numbers if n is not None]
    shift = counted[0] - numbers.index(counted[0]) - 1 if counted == sorted(set(counted)) and counted else 0
    return tuple(
        Life(number + max(shift, 0), EvidenceSet(items=tuple(part), coverage=seen.coverage), began)
        for number, (part, began) in enumerate(zip(parts, (None, *(cut.began for cut in cuts)), strict=True))
    )


def _ended(part: Sequence[Evidence[Fact]]) -> list[Evidence[Fact]]:
    """The ends of the streams of an earlier life: at their last evidence, as far as is known."""
    known = {e.origin.writer for e in part if isinstance(e.fact, StreamEnded)}
    last: dict[tuple[str, str], Evidence[Fact]] = {}
    for each in part:
        key = each.origin.writer
        if key not in known and (each.origin.line or 0) >= (last[key].origin.line or 0 if key in last else 0):
            last[key] = each
    return [
        Evidence(
            fact=StreamEnded(last=e.quote),
            origin=Origin(source=e.origin.source, line=_last_line(e), stream=e.origin.stream),
            rank=e.rank,
            at=e.at,
            quote=e.quote,
        )
        for e in last.values()
    ]


def _last_line(each: Evidence[Fact]) -> int | None:
    lines = each.fact.lines if isinstance(each.fact, ExceptionRaised) else 0
    return each.origin.line + lines if each.origin.line is not None else None
