# SPDX-License-Identifier: Apache-2.0
"""Flight-recorder dumps of PyTorch, as files."""

from __future__ import annotations

from pathlib import Path

from keepstep.base.safe_files import open_regular
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import DumpUnreadable, NothingRecorded, RecordedCollective, SendsUnrecorded
from keepstep.model.identity import Rank
from keepstep.parse.formats import flight_recorder
from keepstep.signals.stacks import place


def read_flight_recorder(
    path: Path, name: str, rank: Rank | None, *, same: tuple[int, int] | None = None
) -> tuple[list[Evidence[Fact]], list[Coverage]]:
    """The last collectives of one rank: the given one, else the one in the file's name."""
    what = f"flight recorder {name}"
    index = flight_recorder.rank_of(path.name)
    who = rank or (Rank(index=index) if index is not None else None)
    try:
        with open_regular(path, same=same) as file:
            data = file.read(flight_recorder.MOST_BYTES + 1)
        facts = flight_recorder.read(data)
    except OSError as error:
        return [], [Coverage(what=what, state=CoverageState.UNAVAILABLE, why=error.strerror or "it cannot be read")]
    except flight_recorder.NotADump as error:
        lost = Evidence(fact=DumpUnreadable(), origin=Origin(source=name), rank=who, quote=str(error))
        return [lost], [Coverage(what=what, state=CoverageState.UNAVAILABLE, why=str(error))]
    if not any(isinstance(fact, RecordedCollective) for fact in facts):
        facts.append(NothingRecorded())
    items: list[Evidence[Fact]] = [
        Evidence(fact=fact, origin=Origin(source=name), rank=who, quote=_words(fact)) for fact in facts
    ]
    why = "" if who is not None else "its name does not give the rank"
    return items, [Coverage(what=what, state=CoverageState.CHECKED, why=why)]


def _words(fact: Fact) -> str:
    if isinstance(fact, NothingRecorded):
        return "no collective was recorded"
    if isinstance(fact, SendsUnrecorded):
        return "it has no record of one of its groups; gloo does not record sends and recvs"
    if not isinstance(fact, RecordedCollective):
        return str(fact)[:200]
    where = f" from {place(fact.frame)}" if fact.frame else ""
    number = "" if fact.between else f"#{fact.seq} "
    return f"{number}{fact.op} {fact.sizes or ''} {fact.dtype or ''} of group {fact.group}: {fact.state}{where}"[:300]
