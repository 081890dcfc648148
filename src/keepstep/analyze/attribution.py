# SPDX-License-Identifier: Apache-2.0
"""Whose words these are: ranks for sightings, from prefixes, file names and the text itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.core.evidence import Evidence, Origin
from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import WorldSeen
from keepstep.core.identity import Rank
from keepstep.parse.logscan import Sighting
from keepstep.parse.prefix import NOBODY, Writer, identify


@dataclass(frozen=True, slots=True)
class Scanned:
    """One log after its scan."""

    name: str
    sightings: tuple[Sighting, ...]


def attribute(logs: Sequence[Scanned]) -> list[Evidence[Fact]]:
    """Evidence of all logs, each with the rank that wrote it where that can be told."""
    owners = {log.name: _owner(log) for log in logs}
    writers = [w for log in logs for w in (owners[log.name], *(s.writer for s in log.sightings))]
    numbering = _Numbering(writers)
    one_host = len({w.node for w in writers if w.node}) <= 1
    evidence: list[Evidence[Fact]] = []
    for log in logs:
        owner = owners[log.name]
        for sighting in log.sightings:
            rank = numbering.rank(sighting.writer, owner, one_host)
            own = sighting.writer.rank is not None and sighting.writer.rank == owner.rank
            origin = Origin(source=log.name, line=sighting.line, stream="" if own else sighting.writer.key)
            evidence.append(
                Evidence(fact=sighting.fact, origin=origin, rank=rank, at=sighting.at, quote=sighting.quote)
            )
    return in_time_order(evidence)


def in_time_order(evidence: list[Evidence[Fact]]) -> list[Evidence[Fact]]:
    """By the clock where every source carries one, else source by source as read."""
    timed: dict[str, float] = {}
    for each in evidence:
        if each.at is not None:
            timed.setdefault(each.origin.source, each.at)
    if len(timed) < 2 or any(e.origin.source not in timed for e in evidence):
        return evidence
    now = dict(timed)
    keyed = []
    for number, each in enumerate(evidence):
        source = each.origin.source
        if each.at is not None:
            now[source] = max(each.at, now[source])
        keyed.append((now[source], number, each))
    return [each for _, _, each in sorted(keyed, key=lambda item: item[:2])]


def _owner(log: Scanned) -> Writer:
    """Who wrote a whole file: by its name, else by what a single writer says of itself."""
    named = identify(log.name.lower())
    if named.rank is not None:
        return named
    said = Counter(
        (s.fact.index, s.fact.role)
        for s in log.sightings
        if isinstance(s.fact, WorldSeen) and s.fact.index is not None and not s.writer.key
    )
    if len({index for index, _ in said}) == 1:
        index, role = said.most_common(1)[0][0]
        return Writer(key="", rank=index, role=role, name=log.name)
    return named


class _Numbering:
    """TensorFlow counts within roles; one global number a task: chief, workers, ps, evaluator."""

    def __init__(self, writers: Sequence[Writer]) -> None:
        highest: dict[str, int] = {}
        for writer in writers:
            if writer.rank is not None and writer.role in ("chief", "master", "worker", "ps"):
                role = "chief" if writer.role == "master" and _has(writers, "worker") else writer.role
                highest[role] = max(highest.get(role, -1), writer.rank)
        chiefs = highest.get("chief", -1) + 1
        workers = highest.get("worker", -1) + 1
        self._shift = {"chief": 0, "master": 0, "worker": chiefs, "ps": chiefs + workers}
        self._shift["evaluator"] = chiefs + workers + highest.get("ps", -1) + 1
        if not workers and not chiefs:
            self._shift["ps"] = 0

    def rank(self, writer: Writer, owner: Writer, one_host: bool) -> Rank | None:
        source = writer if writer is not NOBODY and writer.rank is not None else owner
        node = writer.node or owner.node
        if source.rank is not None:
            index = source.rank + self._shift.get(source.role or "", 0)
            return Rank(index=index, node=node, local=writer.local, role=source.role)
        if writer.local is not None and one_host:
            return Rank(index=writer.local, node=node, local=writer.local)
        return None


def _has(writers: Sequence[Writer], role: str) -> bool:
    return any(w.role == role for w in writers)
