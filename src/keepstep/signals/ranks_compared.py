# SPDX-License-Identifier: Apache-2.0
"""Ranks held against each other, whatever the words: who never said what all others say, who went on alone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.compared import MessageMissing, WentOnAlone
from keepstep.model.identity import Rank
from keepstep.signals.templates import StreamTold, TemplateTold

LEAST_RANKS, MANY_RANKS = 3, 5
"""Of few ranks the lack of a message means something only once each of them is in a loop."""
LEAST_NUMBERS = 4
"""How many numbers of one message must have come before the lack of one means anything."""
NEAR_THE_END = 40
"""In lines of a stream: what was missing long before the end did not end the run."""
MOST_ALONE = 4
OFTEN = 3
"""A message that came this often belongs to a loop."""

Found = Evidence[MessageMissing] | Evidence[WentOnAlone]


def missing_and_alone(streams: Mapping[int, StreamTold], names: Mapping[int, str]) -> Iterator[Found]:
    """Of ranks with a stream each. ``names``: the log of each rank."""
    if len(streams) >= MANY_RANKS or (len(streams) >= LEAST_RANKS and all(map(_loops, streams.values()))):
        yield from _missing(streams, names)
    yield from _alone(streams, names)


def _loops(stream: StreamTold) -> bool:
    return any(each.count >= OFTEN for each in stream.told.values())


def _missing(streams: Mapping[int, StreamTold], names: Mapping[int, str]) -> Iterator[Evidence[MessageMissing]]:
    """A message that all ranks but one printed equally often, near their end."""
    counts: dict[str, dict[int, int]] = {}
    for rank, stream in streams.items():
        for template, each in stream.told.items():
            counts.setdefault(template, {})[rank] = each.count
    for template, by_rank in counts.items():
        usual, ranks = Counter(by_rank.get(rank, 0) for rank in streams).most_common(1)[0]
        if not usual or ranks != len(streams) - 1:
            continue
        odd = next(rank for rank in streams if by_rank.get(rank, 0) != usual)
        others = [streams[rank].told[template] for rank in streams if rank != odd]
        if by_rank.get(odd, 0) < usual and all(
            streams[rank].lines - streams[rank].told[template].last <= NEAR_THE_END for rank in streams if rank != odd
        ):
            witness = next(rank for rank in streams if rank != odd)
            yield _evidence_of_missing(odd, len(streams), others[0], names[witness], witness)


def _alone(streams: Mapping[int, StreamTold], names: Mapping[int, str]) -> Iterator[Evidence[WentOnAlone]]:
    """A rank whose last lines no other rank printed, where before it had said nothing of its own.

    Not the first rank, which logs, saves and evaluates for all; and only once the ranks have a loop in common.
    """
    if len(streams) < 2:
        return
    shared = Counter(template for stream in streams.values() for template in stream.told)
    everyone = len(streams)
    gone: list[tuple[int, list[TemplateTold]]] = []
    for rank, stream in streams.items():
        together = [each for template, each in stream.told.items() if shared[template] == everyone]
        if rank == min(streams) or not any(each.count >= OFTEN for each in together):
            continue
        common = [each.last for each in together]
        own = [each for template, each in stream.told.items() if shared[template] == 1]
        after = sorted((each for each in own if common and each.first > max(common)), key=lambda each: each.first)
        if after and len(after) == len(own) and len(after) <= MOST_ALONE:
            gone.append((rank, after))
    if len(gone) == 1:
        rank, after = gone[0]
        for each in after:
            fact = WentOnAlone(rank=rank, text=each.text[:200], others=everyone - 1)
            origin = Origin(source=names[rank], line=each.first)
            yield Evidence(fact=fact, origin=origin, rank=Rank(index=rank), quote=each.text.strip())


def missing_in_one_log(stream: StreamTold, name: str) -> Iterator[Evidence[MessageMissing]]:
    """One log of all: a message that came equally often for each of 0 to N but one. Which number shows by itself."""
    for each in stream.told.values():
        if each.count < LEAST_NUMBERS or stream.lines - each.last > NEAR_THE_END:
            continue
        found = _lacks_one(each)
        if found is not None:
            yield _evidence_of_missing(*found, each, name, None)


def _lacks_one(each: TemplateTold) -> tuple[int, int] | None:
    """The number that is lacking, and of how many, where one place of the message holds all others, equally often.

    Whether 0 is lacking shows only if the message also states how many there are.
    """
    columns = list(zip(*each.numbers, strict=False))
    for column in columns:
        often = Counter(column)
        values = set(often)
        rest = [other for other in columns if other is not column]
        if len(values) < LEAST_NUMBERS or max(often.values()) - min(often.values()) > 1:
            continue
        if any(len(set(other)) > 1 for other in rest):
            continue
        world = max(values) + 1
        lacking = set(range(world)) - values
        if len(lacking) == 1 and (0 not in lacking or any(set(other) == {world} for other in rest)):
            return lacking.pop(), world
    return None


def _evidence_of_missing(
    odd: int, world: int, told: TemplateTold, name: str, witness: int | None
) -> Evidence[MessageMissing]:
    fact = MessageMissing(rank=odd, text=told.text.strip()[:200], printed=world - 1, of=world)
    rank = Rank(index=witness) if witness is not None else None
    return Evidence(fact=fact, origin=Origin(source=name, line=told.last), rank=rank, quote=told.text.strip())
