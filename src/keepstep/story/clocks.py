# SPDX-License-Identifier: Apache-2.0
"""Clocks that differ: how far each log's clock is ahead, by what several logs report of one moment. Pure.

An offset is the median over several shared events. Where they are few or disagree, nothing is corrected: then a
difference of times means what it meant before. What a correction cannot decide stays with the evidence, as the seconds
by which its time may be wrong.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.wording import duration, ranks
from keepstep.model.evidence import Coverage, CoverageState, Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ProcessesStarted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.restarts import LifeBegan
from keepstep.model.report import OF_A_CLOCK, ClockOffset
from keepstep.story.clock_events import Event, Stream, Timed, said, timed_streams
from keepstep.story.life_of_file import job_of
from keepstep.story.lives import lives_of_files

SAME_S = 5.0
"""Clocks that differ by less count as the same: lines are buffered, and ranks are a little late."""
ENOUGH = 3
"""This many shared events make an offset."""
FEWEST = 2
"""Two do if they are of different kinds and agree closely, or show another time zone: lateness by a multiple of
fifteen minutes would be a rare accident."""
AGREEING = 0.75
"""This part of the shared events must agree."""
SPREADS = 4.5
"""Events agree if they are this many times the usual deviation from the median, or nearer."""
FINE_S = 0.5
"""Events that deviate by less agree closely."""
LATE_S = 1.0
"""Where too few events agree, those that deviate by less do: each of two ranks may be half a second late."""
MOST_OF_OFFSET = 0.25
"""An offset whose uncertainty is a larger part of it is not established."""
ZONE_S = 900.0
FARTHEST_ZONE_S = 26 * 3600.0
LONGEST_STAMP = 60
_ABSOLUTE = lazy_pattern(r"\b[IWEF]0000 00:00:\d{9,10}\.|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)\b")
"""Times that do not depend on the zone of their host."""
OUTLIVES_S = 30.0
"""How long after its end processes that a rank started may write to its log."""
BASES = 3
PASSES = 4

_Key = TypeVar("_Key", str, int)


@dataclass(frozen=True)
class Aligned:
    """The evidence with comparable times, and the clocks that were corrected for it."""

    items: list[Evidence[Fact]]
    clocks: tuple[ClockOffset, ...] = ()
    comparable: frozenset[str] = frozenset()
    """The logs whose clocks are known to agree, after the correction."""


@dataclass(frozen=True)
class Estimate:
    """How far a clock is ahead of another, in seconds, give or take ``within_s``.

    If that is infinite, only a bound is known: the clock is at least so far off.
    """

    offset_s: float
    within_s: float
    kinds: Mapping[str, int]
    """How many shared events of each kind agree on it."""

    @property
    def events(self) -> int:
        return sum(self.kinds.values())


def aligned(items: Sequence[Evidence[Fact]]) -> Aligned:
    """The same evidence, with the times of clocks that are shown to differ corrected."""
    streams = timed_streams(items)
    found: dict[Stream, Estimate] = {}
    if sum(len(each.events) >= FEWEST for each in streams.values()) >= 2:
        for life in _lives(items, streams):
            found |= _offsets(life)
    limits = bounds(items, streams)
    for stream, bound in limits.items():
        if stream in found and not _is_possible(found, stream, bound):
            del found[stream]
    bounded = {stream: _bounded(found, bound) for stream, bound in limits.items() if stream not in found}
    found |= {stream: each for stream, each in bounded.items() if each is not None}
    comparable = frozenset(source for (source, _), each in found.items() if math.isfinite(each.within_s))
    moved = {stream: each for stream, each in found.items() if abs(each.offset_s) >= SAME_S}
    if not moved:
        return Aligned(list(items), comparable=comparable)
    clocks = _Clocks(items, streams, found)
    corrected = [clocks.corrected(each) for each in items]
    return Aligned(corrected, tuple(_told(streams, found, moved)), comparable)


def _is_possible(found: Mapping[Stream, Estimate], stream: Stream, bound: Bound) -> bool:
    """Whether an offset allows that the rank wrote its lines before its launcher saw it end."""
    launcher = found.get(bound.launcher)
    if launcher is None:
        return True
    ahead, slack = found[stream].offset_s - launcher.offset_s, found[stream].within_s + OUTLIVES_S
    return bound.least - slack <= ahead <= bound.most + slack


def _bounded(found: Mapping[Stream, Estimate], bound: Bound) -> Estimate | None:
    """The offset of a clock that only its launcher's reports bound; of unknown size if they bound it on one side."""
    if bound.least <= OUTLIVES_S and bound.most >= -OUTLIVES_S:
        return None
    launcher = found.get(bound.launcher)
    more = launcher.offset_s if launcher is not None else 0.0
    if math.isfinite(bound.most) and bound.within_s <= MOST_OF_OFFSET * abs(bound.middle):
        return Estimate(bound.middle + more, bound.within_s, {"end": 2})
    return Estimate(bound.least + more if bound.least > 0 else bound.most + more, math.inf, {"end": 1})


def _lives(items: Sequence[Evidence[Fact]], streams: Mapping[Stream, Timed]) -> Iterator[dict[Stream, Timed]]:
    """The streams of each job and life of the run: a later life is no clock that is ahead."""
    numbers = lives_of_files(items)
    stated = {each.life for each in streams.values() if each.life is not None}
    groups: dict[object, dict[Stream, Timed]] = defaultdict(dict)
    for stream, each in streams.items():
        number = numbers.get(stream[0])
        groups[number, job_of(stream[0]), each.life if len(stated) > 1 else None][stream] = each
    yield from groups.values()


def _offsets(streams: Mapping[Stream, Timed]) -> dict[Stream, Estimate]:
    """Each stream's clock against that of most; streams that cannot be compared are left out."""
    able = [stream for stream, each in streams.items() if len(each.events) >= FEWEST]
    able.sort(key=lambda stream: (-len(streams[stream].events), min(streams[stream].ranks, default=1 << 30)))
    best: dict[Stream, Estimate] = {}
    for base in able[:BASES]:
        linked = _linked(streams, able, base)
        best = linked if len(linked) > len(best) else best
        if 2 * len(best) > len(able):
            break
    if len(best) < 2 or _began_again(streams, best):
        return {}
    right = _most(streams, best)
    zero = _median(best[stream].offset_s for stream in right)
    shown = max((best[stream] for stream in right), key=lambda each: each.events)
    return {
        stream: replace(each if each.kinds else shown, offset_s=each.offset_s - zero) for stream, each in best.items()
    }


def _linked(streams: Mapping[Stream, Timed], able: Sequence[Stream], base: Stream) -> dict[Stream, Estimate]:
    """Offsets to ``base``: directly, or through streams that share events with both."""
    reference = dict(streams[base].events)
    found = {base: Estimate(0.0, 0.0, {})}
    for _ in range(PASSES):
        before = len(found)
        for stream in able:
            if stream in found:
                continue
            mine = streams[stream].events
            estimate = estimated(mine, reference)
            if estimate is not None:
                found[stream] = estimate
                for event, at in mine.items():
                    reference.setdefault(event, at - estimate.offset_s)
        if len(found) == before:
            break
    return found


def estimated(mine: Mapping[Event, float], others: Mapping[Event, float]) -> Estimate | None:
    """How far one clock is ahead, if enough shared events agree on it."""
    apart = {event: at - others[event] for event, at in mine.items() if event in others}
    if len(apart) < FEWEST:
        return None
    middle = _median(apart.values())
    usual = _median(abs(each - middle) for each in apart.values())
    agree: dict[Event, float] = {}
    for fine in (FINE_S, LATE_S):
        agree = {event: each for event, each in apart.items() if abs(each - middle) <= max(SPREADS * usual, fine)}
        if len(agree) >= AGREEING * len(apart):
            break
    within = max(abs(each - middle) for each in agree.values())
    kinds = Counter(str(event[0]) for event in agree)
    zone = zone_of(middle)
    fewer = zone is not None or abs(middle) < SAME_S or (len(kinds) > 1 and within <= FINE_S)
    if len(agree) < max(FEWEST if fewer else ENOUGH, AGREEING * len(apart)):
        return None
    if within > (SAME_S if abs(middle) < SAME_S else MOST_OF_OFFSET * abs(middle)):
        return None
    offset = zone if zone is not None and abs(zone - middle) <= max(within, FINE_S) else middle
    return Estimate(offset, within, kinds)


def _median(values: Iterable[float]) -> float:
    """The package `statistics` takes longer to import than all of this."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def zone_of(offset_s: float) -> float | None:
    """The difference of time zones that an offset is, if it is one."""
    nearest = round(offset_s / ZONE_S) * ZONE_S
    return nearest if nearest and abs(nearest) <= FARTHEST_ZONE_S and abs(offset_s - nearest) < SAME_S else None


def _began_again(streams: Mapping[Stream, Timed], found: Mapping[Stream, Estimate]) -> bool:
    """Whether a rank has two streams that are apart: two lives then, not two clocks, and the others may differ too."""
    known: dict[int, float] = {}
    for stream, each in found.items():
        for rank in streams[stream].ranks if len(streams[stream].ranks) == 1 else ():
            if abs(known.setdefault(rank, each.offset_s) - each.offset_s) >= SAME_S:
                return True
    return False


def _most(streams: Mapping[Stream, Timed], found: Mapping[Stream, Estimate]) -> list[Stream]:
    """The clocks that most streams share; of several, those that others, such as the launcher's, agree with."""
    ordered = sorted(found, key=lambda stream: found[stream].offset_s)
    groups: list[list[Stream]] = []
    for stream in ordered:
        if groups and found[stream].offset_s - found[groups[-1][0]].offset_s < SAME_S:
            groups[-1].append(stream)
        else:
            groups.append([stream])
    most = [some for some in groups if len(some) == max(map(len, groups))]
    others = [each for stream, each in streams.items() if stream not in found] if len(most) > 1 else []

    def order(some: Sequence[Stream]) -> tuple[int, int]:
        low, high = min(streams[s].first for s in some) - SAME_S, max(streams[s].last for s in some) + SAME_S
        agreeing = sum(low <= each.last and each.first <= high for each in others)
        return -agreeing, min(min(streams[s].ranks, default=1 << 30) for s in some)

    return min(most, key=order)


class _Clocks:
    """Whose clock each piece of evidence has."""

    def __init__(
        self, items: Iterable[Evidence[Fact]], streams: Mapping[Stream, Timed], found: Mapping[Stream, Estimate]
    ) -> None:
        zones = {stream: streams[stream] for stream, each in found.items() if zone_of(each.offset_s) is not None}
        self._utc = _in_utc(items, zones) if zones else {}
        self._found = found
        self._sources: dict[str, Estimate | None] = {}
        self._ranks: dict[int, Estimate | None] = {}
        for stream, each in found.items():
            _agreed(self._sources, stream[0], each)
            for rank in streams[stream].ranks if len(streams[stream].ranks) == 1 else ():
                _agreed(self._ranks, rank, each)
        writers: dict[str, set[int]] = defaultdict(set)
        for stream, timed in streams.items():
            writers[stream[0]] |= timed.ranks
        self._writers = {source: some for source, some in writers.items() if len(some) == 1}

    def corrected(self, each: Evidence[Fact]) -> Evidence[Fact]:
        clock = self._of(each)
        if clock is None or abs(clock.offset_s) < SAME_S:
            return each
        offset, within = clock.offset_s, clock.within_s
        if math.isinf(within):
            return replace(each, within_s=within)
        fact = each.fact
        if isinstance(fact, ProcessExited) and fact.failed_at is not None:
            fact = replace(fact, failed_at=fact.failed_at - offset)
        if each.at is None or each.at in self._utc.get(each.origin.writer, ()):
            return each if fact is each.fact else replace(each, fact=fact)
        return replace(each, fact=fact, at=each.at - offset, within_s=within)

    def _of(self, each: Evidence[Fact]) -> Estimate | None:
        source = each.origin.source
        stream = (source, each.origin.stream)
        if stream in self._found:
            return self._found[stream]
        if source in self._sources:
            return self._sources[source]
        if each.rank is None or self._writers.get(source, {each.rank.index}) != {each.rank.index}:
            return None
        return self._ranks.get(each.rank.index) if each.origin.line is not None or each.at is not None else None


def _agreed(known: dict[_Key, Estimate | None], key: _Key, estimate: Estimate) -> None:
    """Keep what is known of several streams together, as long as they agree."""
    before = known.get(key, estimate)
    known[key] = before if before is not None and abs(before.offset_s - estimate.offset_s) < SAME_S else None


def _in_utc(items: Iterable[Evidence[Fact]], streams: Mapping[Stream, Timed]) -> dict[Stream, set[float]]:
    """The times that lines of a log state with their zone or since the epoch, while its shared events do not."""
    found: dict[Stream, set[float]] = defaultdict(set)
    for each in items:
        stream = each.origin.writer
        if each.at is not None and stream in streams and _ABSOLUTE.search(each.quote[:LONGEST_STAMP]):
            found[stream].add(each.at)
    return {stream: some for stream, some in found.items() if not some.intersection(streams[stream].events.values())}


def _told(
    streams: Mapping[Stream, Timed], found: Mapping[Stream, Estimate], moved: Mapping[Stream, Estimate]
) -> Iterator[ClockOffset]:
    """Clocks that are equally far ahead, together."""
    others = {rank for stream in found if stream not in moved for rank in streams[stream].ranks}
    groups: list[list[Stream]] = []
    for stream in sorted(moved, key=lambda stream: moved[stream].offset_s):
        node = streams[stream].node
        near = bool(groups) and moved[stream].offset_s - moved[groups[-1][0]].offset_s < SAME_S / 2
        alike = near and math.isinf(moved[stream].within_s) == math.isinf(moved[groups[-1][0]].within_s)
        if alike and streams[groups[-1][0]].node == node:
            groups[-1].append(stream)
        else:
            groups.append([stream])
    for some in groups:
        offset = _median(moved[stream].offset_s for stream in some)
        weakest = min(some, key=lambda stream: moved[stream].events)
        mine = {rank for stream in some for rank in streams[stream].ranks}
        within = max(moved[stream].within_s for stream in some)
        yield ClockOffset(
            logs=tuple(sorted({stream[0] for stream in some})),
            ranks=tuple(sorted(mine)),
            node=streams[some[0]].node,
            offset_s=round(offset, 3),
            within_s=None if math.isinf(within) else round(within, 3),
            events=moved[weakest].events,
            by=said(moved[weakest].kinds),
            against=tuple(sorted(others - mine)),
            zone=zone_of(offset) is not None,
        )


def clock_coverage(clocks: Iterable[ClockOffset]) -> list[Coverage]:
    """The corrections, and what could not be corrected, for people."""
    return [
        Coverage(
            what=f"{OF_A_CLOCK}{whose(each)}",
            state=CoverageState.UNAVAILABLE if each.within_s is None else CoverageState.CHECKED,
            why=words(each),
        )
        for each in clocks
    ]


def whose(clock: ClockOffset) -> str:
    if clock.node is not None:
        return f"node {clock.node}"
    return ranks(clock.ranks) if clock.ranks else clock.logs[0]


def words(clock: ClockOffset) -> str:
    """``300 s ahead of ranks 0-2, by 12 shared steps; its times were corrected``."""
    way = "ahead of" if clock.offset_s > 0 else "behind"
    others = f"{way} {ranks(clock.against)}" if clock.against else way.split()[0]
    far = f"{abs(clock.offset_s):,.0f} s" if abs(clock.offset_s) < ZONE_S else duration(abs(clock.offset_s))
    if clock.within_s is None:
        return f"at least {far} {others}, by {clock.by}; its times were not compared with others"
    zone = " (another time zone)" if clock.zone else ""
    give = f", give or take {duration(clock.within_s)}" if clock.within_s >= 1 else ""
    return f"{far} {others}{zone}{give}, by {clock.by}; its times were corrected"


# --- What a launcher's report of an end says about a rank's clock: an interval, never a point. Pure.
#
# A rank writes nothing after its launcher has seen it end, nor before the launcher began. A rank whose lines
# are later than its own end has a clock that is ahead, by so much at least.


@dataclass(frozen=True)
class Bound:
    """By how many seconds the clock of a rank's log is ahead of its launcher's: ``least`` to ``most``."""

    launcher: Stream
    least: float
    most: float

    @property
    def middle(self) -> float:
        return (self.least + self.most) / 2

    @property
    def within_s(self) -> float:
        return (self.most - self.least) / 2


def bounds(items: Iterable[Evidence[Fact]], streams: Mapping[Stream, Timed]) -> dict[Stream, Bound]:
    """For each log of one rank whose end a launcher reports elsewhere, the bounds of its clock."""
    exits: dict[int, dict[Stream, float]] = defaultdict(dict)
    began: dict[Stream, float] = {}
    for each in items:
        if each.at is None or not isinstance(each.fact, ProcessExited | LifeBegan | ProcessesStarted):
            continue
        stream = each.origin.writer
        if not isinstance(each.fact, ProcessExited):
            began[stream] = min(each.at, began.get(stream, each.at))
        elif each.fact.rank is not None and stream in streams:
            ended = exits[each.fact.rank]
            ended[stream] = max(each.at, ended.get(stream, each.at))
    if not exits:
        return {}
    found: dict[Stream, Bound] = {}
    for rank, stream in _alone(streams):
        ended, timed = exits.get(rank, {}), streams[stream]
        if len(ended) != 1:
            continue
        launcher, at = next(iter(ended.items()))
        if launcher[0] == stream[0] or job_of(launcher[0]) != job_of(stream[0]):
            continue
        least = timed.last - at
        most = timed.first - began[launcher] if launcher in began else math.inf
        if least <= most:
            found[stream] = Bound(launcher, least, most)
    return found


def _alone(streams: Mapping[Stream, Timed]) -> list[tuple[int, Stream]]:
    """The ranks that wrote one stream only: with several, an end may be that of another life or another job."""
    wrote: dict[int, list[Stream]] = defaultdict(list)
    for stream, timed in streams.items():
        for rank in timed.ranks:
            wrote[rank].append(stream)
    return [(rank, some[0]) for rank, some in wrote.items() if len(some) == 1 and streams[some[0]].ranks == {rank}]
