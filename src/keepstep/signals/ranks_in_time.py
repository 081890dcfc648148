# SPDX-License-Identifier: Apache-2.0
"""Ranks held against each other by when they print the same, and by the amounts of data that they state. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.compared import AmountsDiffer, RankLags
from keepstep.model.identity import Rank
from keepstep.signals.templates import LONGEST, StreamTold

LEAST_RANKS = 3
LEAST_ROUNDS = 8
MOSTLY = 0.7
LAG_S, OF_A_PERIOD = 1.0, 0.3
"""A rank lags if it is this much later, and this part of the time from one round to the next."""
ONCE_S, ONCE_TIMES = 600.0, 20
"""Once is enough if it is this much later, and this many times as much as usual."""
MOST_UNLIKE = 3
"""Amounts of which one is more than this many times the other are not shares of one data set."""
NEAR = 40
"""Characters around an amount in which its unit is."""
_OF_DATA = lazy_pattern(
    r"(?i)\b(?:files|shards|samples|examples|records|rows|batches|images|sequences|steps per epoch"
    r"|dataset (?:size|length))\b",
    most=LONGEST,
)

_OF_A_PROCESS = lazy_pattern(r"(?i)\b(?:pid|process|thread|port|id)\W{0,3}$", most=LONGEST)

Round = tuple[str, tuple[int, ...]]


def lagging(streams: Mapping[int, StreamTold], names: Mapping[int, str]) -> Iterator[Evidence[RankLags]]:
    """A rank that is the last in most rounds, or far behind in one. A clock that is late is late in every round."""
    if len(streams) < LEAST_RANKS:
        return
    rounds = _rounds(streams)
    if not rounds:
        return
    lags: dict[int, list[float]] = defaultdict(list)
    for times in rounds.values():
        usual = median(times.values())
        for rank, at in times.items():
            lags[rank].append(at - usual)
    skew = {rank: max(0.0, min(values)) for rank, values in lags.items()}
    late: dict[Round, tuple[int, float]] = {}
    for key, times in rounds.items():
        (second, _), (latest, rank) = sorted((at - skew[each], each) for each, at in times.items())[-2:]
        late[key] = (rank, latest - second)
    worst, (rank, by) = max(late.items(), key=lambda item: item[1][1])
    rest = [lag for key, (_, lag) in late.items() if key != worst]
    if rest and by > max(ONCE_S, ONCE_TIMES * max(median(rest), 1.0)):
        yield _evidence(streams, names, worst[0], rank, by, 1, 1)
        return
    yield from _each_time(streams, names, rounds, late)


def _each_time(
    streams: Mapping[int, StreamTold],
    names: Mapping[int, str],
    rounds: Mapping[Round, Mapping[int, float]],
    late: Mapping[Round, tuple[int, float]],
) -> Iterator[Evidence[RankLags]]:
    by_template: dict[str, list[Round]] = defaultdict(list)
    for key in rounds:
        by_template[key[0]].append(key)
    for template, keys in by_template.items():
        if len(keys) < LEAST_ROUNDS:
            continue
        starts = sorted(min(rounds[key].values()) for key in keys)
        period = median(later - earlier for earlier, later in pairwise(starts))
        enough = max(LAG_S, OF_A_PERIOD * period)
        last = Counter(late[key][0] for key in keys if late[key][1] > enough)
        if last and last.most_common(1)[0][1] >= MOSTLY * len(keys):
            rank, often = last.most_common(1)[0]
            by = median(late[key][1] for key in keys if late[key][0] == rank)
            yield _evidence(streams, names, template, rank, by, often, len(keys))
            return


def _rounds(streams: Mapping[int, StreamTold]) -> dict[Round, dict[int, float]]:
    """What every rank printed exactly once with the same numbers, and when each did."""
    found: dict[Round, dict[int, float]] = defaultdict(dict)
    again: set[Round] = set()
    for rank, stream in streams.items():
        for template, told in stream.told.items():
            for numbers, at in zip(told.numbers, told.times, strict=True):
                key = (template, numbers)
                if at is None or rank in found[key]:
                    again.add(key)
                else:
                    found[key][rank] = at
    return {key: times for key, times in found.items() if len(times) == len(streams) and key not in again}


def _evidence(
    streams: Mapping[int, StreamTold],
    names: Mapping[int, str],
    template: str,
    rank: int,
    by: float,
    often: int,
    of: int,
) -> Evidence[RankLags]:
    told = streams[rank].told[template]
    fact = RankLags(rank=rank, text=told.text.strip()[:200], by_s=round(by, 1), rounds=often, of=of)
    origin = Origin(source=names[rank], line=told.last)
    return Evidence(fact=fact, origin=origin, rank=Rank(index=rank), quote=told.text.strip())


def unlike_amounts(streams: Mapping[int, StreamTold], names: Mapping[int, str]) -> Iterator[Evidence[AmountsDiffer]]:
    """What every rank printed once about its data, with one number that differs between them."""
    if len(streams) < 2:
        return
    everywhere = set.intersection(*(set(stream.told) for stream in streams.values()))
    for template in everywhere:
        told = {rank: stream.told[template] for rank, stream in streams.items()}
        if any(each.count != 1 for each in told.values()):
            continue
        columns = list(zip(*(each.numbers[0] for each in told.values()), strict=True))
        varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
        if len(varying) != 1 or not _is_of_data(template, varying[0]):
            continue
        amounts = columns[varying[0]]
        if len(set(amounts)) == len(amounts) > LEAST_RANKS:
            continue  # all of them different: a name or a place, not an amount
        least, most = min(amounts), max(amounts)
        if least > 0 and most <= MOST_UNLIKE * least and most > LEAST_RANKS:
            rank = list(told)[amounts.index(least)]
            fact = AmountsDiffer(rank=rank, text=told[rank].text.strip()[:200], least=least, most=most)
            origin = Origin(source=names[rank], line=told[rank].last)
            yield Evidence(fact=fact, origin=origin, rank=Rank(index=rank), quote=told[rank].text.strip())
            return


def _is_of_data(template: str, place: int) -> bool:
    """Whether the words next to this number of a message are about data, and it is no number of a process."""
    begin = [n for n, letter in enumerate(template) if letter == "#"][place]
    if _OF_A_PROCESS.search(template[:begin]):
        return False
    return bool(_OF_DATA.search(template[max(0, begin - NEAR) : begin + NEAR]))
