# SPDX-License-Identifier: Apache-2.0
"""What happens to several ranks at one moment, by the clock of each: the material for comparing clocks. Pure.

A world is formed for all its ranks at once, ranks in step reach a step together, and an error of the coordination
service reaches all of them. A start is no such event: ranks may start late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.wording import count, listing
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.restarts import LifeBegan
from keepstep.model.facts.sync import CollectiveTimeout, CommMember, GroupShutDown, RanksMissing, TimeoutHeardOf
from keepstep.model.facts.training import StepSeen

MOST_EVENTS = 2000
"""Of one stream: more say nothing new."""
_EPOCH = lazy_pattern(r"\bepoch[ :=#]{0,3}\[?(\d{1,6})\b")
_TOLD = ("Polled an error from coordination service", "JAX distributed service detected fatal errors")
"""The coordination service tells all tasks at once."""
_OF_A_GROUP = (CollectiveTimeout, PeerLost, GroupShutDown, RanksMissing, TimeoutHeardOf)
_SAID = {
    "step": ("shared step", "shared steps"),
    "world": ("report of the world size", "reports of the world size"),
    "comm": ("communicator", "communicators"),
    "timeout": ("collective that timed out", "collectives that timed out"),
    "end": ("report by its launcher", "reports by its launcher"),
    "told": ("error of the coordination service", "errors of the coordination service"),
}

Stream = tuple[str, str]
"""A source and a stream in it: one writer, so one clock."""
Event = tuple[object, ...]
"""What happened: its kind first. Last: which occurrence it is, of how many in the stream."""

_Raw = tuple[int, int, Event, float]
"""Its line, its number among all evidence, the event, and when."""


@dataclass
class Timed:
    """One stream with its clock."""

    ranks: set[int] = field(default_factory=set)
    node: str | None = None
    events: dict[Event, float] = field(default_factory=dict)
    first: float = 0.0
    last: float = 0.0
    life: tuple[int | None, int | None] | None = None
    """The restart count or attempt that its first line of a life states."""


def timed_streams(items: Iterable[Evidence[Fact]]) -> dict[Stream, Timed]:
    """Every stream that states times, with the events that it may share with others."""
    streams: dict[Stream, Timed] = {}
    raw: dict[Stream, list[_Raw]] = defaultdict(list)
    sizes: list[int] = []
    together = False
    servers = False
    for number, each in enumerate(items):
        fact = each.fact
        if isinstance(fact, WorldSeen) and fact.size:
            sizes.append(fact.size)
        together = together or isinstance(fact, _OF_A_GROUP)
        servers = servers or (each.rank is not None and each.rank.role == "ps")
        if each.at is None or each.origin.line is None:
            continue
        key = each.origin.writer
        known = streams.get(key)
        if known is None:
            known = streams[key] = Timed(first=each.at, last=each.at)
        known.first, known.last = min(known.first, each.at), max(known.last, each.at)
        if each.rank is not None:
            known.ranks.add(each.rank.index)
            known.node = known.node or each.rank.node
        if isinstance(fact, LifeBegan) and known.life is None and (fact.restarts or fact.attempt) is not None:
            known.life = (fact.restarts, fact.attempt)
        event = _event(each)
        if event is not None:
            raw[key].append((each.origin.line, number, event, each.at))
    alone = servers or (bool(sizes) and max(set(sizes), key=sizes.count) == 1)
    unknown = not sizes and not together
    for key, found in raw.items():
        streams[key].events = _counted(_shareable(found, alone, unknown))
    return streams


def _shareable(found: Iterable[_Raw], alone: bool, unknown: bool) -> Iterator[_Raw]:
    """Without steps that a rank makes by itself. In a world of unknown size, only an equal loss shows a common step."""
    for line, number, event, at in found:
        if event[0] != "step":
            yield line, number, event, at
        elif not alone and not unknown:
            yield line, number, event[:-1], at
        elif unknown and event[-1] is not None and event[-1] == event[-1]:
            yield line, number, event, at


def _event(each: Evidence[Fact]) -> Event | None:
    fact = each.fact
    if isinstance(fact, StepSeen):
        if not fact.step:
            return None
        epoch = _EPOCH.search(each.quote.lower()) if "poch" in each.quote else None
        return ("step", epoch[1] if epoch else None, fact.step, fact.of, fact.loss)
    if isinstance(fact, WorldSeen):
        return ("world", fact.size) if (fact.size or 0) > 1 else None
    if isinstance(fact, CommMember):
        return ("comm", fact.comm) if fact.comm else None
    if isinstance(fact, CollectiveTimeout):
        known = fact.seq is not None and fact.timeout_ms is not None
        return ("timeout", fact.group, fact.op, fact.seq, fact.timeout_ms) if known else None
    if isinstance(fact, GroupShutDown):
        return ("told",) if fact.how.startswith(_TOLD) else None
    return None


def _counted(found: Iterable[_Raw]) -> dict[Event, float]:
    """Each event with its number of how many. What is said several times in a row counts once.

    Of a world the last line counts, which follows its forming; of a failure the first.
    """
    in_a_row: list[tuple[Event, float]] = []
    latest: dict[str, int] = {}
    """By kind, the place of its last event since the last step."""
    for _, _, event, at in sorted(found, key=lambda item: item[:2])[-MOST_EVENTS:]:
        kind = str(event[0])
        if kind == "step":
            latest.clear()
        elif kind in latest and in_a_row[latest[kind]][0] == event:
            if kind in ("world", "comm"):
                in_a_row[latest[kind]] = (event, at)
            continue
        latest[kind] = len(in_a_row)
        in_a_row.append((event, at))
    times: dict[Event, list[float]] = defaultdict(list)
    for event, at in in_a_row:
        times[event].append(at)
    return {(*event, n, len(some)): at for event, some in times.items() for n, at in enumerate(some)}


def said(kinds: Mapping[str, int]) -> str:
    """``12 shared steps and 1 report of the world size``."""
    return listing(count(number, *_SAID[kind]) for kind, number in kinds.items())
