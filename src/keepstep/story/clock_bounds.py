# SPDX-License-Identifier: Apache-2.0
"""What a launcher's report of an end says about a rank's clock: an interval, never a point. Pure.

A rank writes nothing after its launcher has seen it end, nor before the launcher began. A rank whose lines
are later than its own end has a clock that is ahead, by so much at least.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ProcessesStarted
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.restarts import LifeBegan
from keepstep.story.clock_events import Stream, Timed
from keepstep.story.life_of_file import job_of


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
        stream = (each.origin.source, each.origin.stream)
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
