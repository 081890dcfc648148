# SPDX-License-Identifier: Apache-2.0
"""Times for lines that state none: from the lines around them, or from the same line in another log. Pure.

The time of an untimed line is read from the lines above it, so it happened then or later. Another log that has the
same line, such as the launcher's, says the same about it; the later of the two is nearer to the truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ErrorSaid, ExceptionRaised, FatalSignal, NativeAbort

BETWEEN_S = 2.0
"""Lines between two timed ones that are at most so far apart have a time."""
SHORTEST = 12
"""In characters. Shorter lines repeat by chance."""
_COPIED = (ExceptionRaised, FatalSignal, NativeAbort, ErrorSaid)
_CLOCK = lazy_pattern(r"\d\d:\d\d:\d\d")


def with_times(items: Sequence[Evidence[Fact]], comparable: Collection[str] = ()) -> list[Evidence[Fact]]:
    """The same evidence, with times for untimed lines where others give them.

    ``comparable``: the logs whose clocks are known to agree. Only those can lend each other a time.
    """
    found = dict(_between(items))
    found |= dict(_copied(items, comparable)) if len(comparable) > 1 else {}
    return [found.get(number, each) for number, each in enumerate(items)] if found else list(items)


def _between(items: Sequence[Evidence[Fact]]) -> Iterator[tuple[int, Evidence[Fact]]]:
    """Evidence between two timed lines of its stream that are close to each other."""
    wanted = {e.origin.writer for e in items if e.at is None and e.origin.line is not None}
    streams: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for number, each in enumerate(items) if wanted else ():
        key = each.origin.writer
        if key in wanted and each.origin.line is not None:
            streams[key].append((each.origin.line, number))
    for places in streams.values():
        places.sort()
        yield from _in_one(items, [number for _, number in places])


def _in_one(items: Sequence[Evidence[Fact]], numbers: Sequence[int]) -> Iterator[tuple[int, Evidence[Fact]]]:
    above: Evidence[Fact] | None = None
    open_: list[int] = []
    for number in numbers:
        each = items[number]
        if each.at is None:
            if above is not None:
                open_.append(number)
            continue
        if above is not None and above.at is not None and 0 <= each.at - above.at <= BETWEEN_S:
            half = (each.at - above.at) / 2
            within = max(half, above.within_s, each.within_s)
            for untimed in open_:
                yield untimed, replace(items[untimed], at=above.at + half, within_s=within, later_s=0.0)
        above, open_ = each, []


def _copied(items: Sequence[Evidence[Fact]], comparable: Collection[str]) -> Iterator[tuple[int, Evidence[Fact]]]:
    """What a rank's log and another log both have, at the later of their times."""
    said: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, each in enumerate(items):
        fact = each.fact
        if not isinstance(fact, _COPIED) or each.origin.source not in comparable:
            continue
        if each.rank is not None and len(each.quote) >= SHORTEST:
            said[type(fact), each.rank.index, each.quote].append(number)
    for numbers in said.values():
        copies = [items[number] for number in numbers]
        timed = [each for each in copies if each.at is not None]
        if len({e.origin.source for e in copies}) < len(copies) or len(copies) < 2 or not timed:
            continue
        if _CLOCK.search(copies[0].quote):
            continue
        latest = max(timed, key=lambda each: each.at or 0.0)
        for number in numbers:
            if items[number] is not latest:
                yield number, replace(items[number], at=latest.at, within_s=latest.within_s, later_s=latest.later_s)
