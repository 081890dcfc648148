# SPDX-License-Identifier: Apache-2.0
"""Once ranks are known: messages about a task belong to it, and the report can say how a rank is known. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.network import AddressMap, PeerLost
from keepstep.model.facts.process import ErrorSaid, ExceptionRaised, ProcessExited, TaskNamed, TracebackCut
from keepstep.model.facts.rank_places import RankKnownBy
from keepstep.model.facts.training import PhaseSeen, StepSeen, StreamEnded
from keepstep.story.who_is_who import KnownRank

LINES_OF_A_MESSAGE = 2
_OF_THE_WRITER = (
    AddressMap,
    ErrorSaid,
    ExceptionRaised,
    PeerLost,
    PhaseSeen,
    ProcessExited,
    StepSeen,
    StreamEnded,
    TaskNamed,
    TracebackCut,
    WorldSeen,
)
"""Facts about the process that prints them, whatever task a message names."""


def with_tasks(evidence: list[Evidence[Fact]]) -> list[Evidence[Fact]]:
    """What a message says is about the task that it names, not about the process that prints it."""
    tasks: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for each in evidence:
        fact, line = each.fact, each.origin.line
        if isinstance(fact, TaskNamed) and fact.role == "worker" and fact.rank is not None and line is not None:
            tasks[each.origin.writer][line] = fact.rank
    if not tasks:
        return evidence
    return [_of_its_task(each, tasks.get(each.origin.writer, {})) for each in evidence]


def _of_its_task(each: Evidence[Fact], tasks: Mapping[int, int]) -> Evidence[Fact]:
    line = each.origin.line
    if not tasks or line is None or each.fact.rank is not None or isinstance(each.fact, _OF_THE_WRITER):
        return each
    lines = range(line - LINES_OF_A_MESSAGE, line + LINES_OF_A_MESSAGE + 1)
    near = {tasks[there] for there in lines if there in tasks}
    return replace(each, fact=replace(each.fact, rank=near.pop())) if len(near) == 1 else each


class How:
    """How each rank is known that no line states, and what is known of processes without a rank."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[str, Origin]] = {}
        self._others: dict[tuple[str, str], tuple[str, Origin]] = {}

    def note(self, known: KnownRank | None, origin: Origin) -> None:
        if known is None or not known.how:
            return
        if known.rank is not None:
            self._ranks.setdefault(known.rank, (known.how, origin))
        else:
            self._others.setdefault((origin.source, origin.stream), (known.how, origin))

    def evidence(self) -> Iterator[Evidence[Fact]]:
        """Notes on whole streams: they are at no line, so nothing is near them."""
        for rank, (how, origin) in self._ranks.items():
            yield Evidence(fact=RankKnownBy(rank=rank, how=how), origin=replace(origin, line=None))
        for how, origin in self._others.values():
            yield Evidence(fact=RankKnownBy(how=how), origin=replace(origin, line=None))
