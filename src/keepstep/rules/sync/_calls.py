# SPDX-License-Identifier: Apache-2.0
"""What each rank passed to its library for one collective, where the library prints it."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from keepstep.model.evidence import Evidence, EvidenceSet
from keepstep.model.facts.sync import CollectiveCalled
from keepstep.rules.sync._waiting import who

Called = Evidence[CollectiveCalled]


class Differing(NamedTuple):
    """One collective that the ranks of a group called differently."""

    number: str
    said: dict[int, str]
    evidence: tuple[Called, ...]


def differing_calls(seen: EvidenceSet) -> Differing | None:
    """The first collective for which ranks gave different operations, counts or types.

    Numbers count per communicator, and a pointer means nothing outside its process. So we compare only ranks
    that have one communicator of this size, and only if there are no more of them than fit into it.
    """
    for size, ranks in _by_size(seen).items():
        if not 2 <= len(ranks) <= size or any(len({e.fact.comm for e in calls}) > 1 for calls in ranks.values()):
            continue
        for number in dict.fromkeys(e.fact.number for calls in ranks.values() for e in calls):
            at = {r: [e for e in calls if e.fact.number == number] for r, calls in ranks.items()}
            at = {r: calls for r, calls in at.items() if calls}
            if _disjoint([{_words(e) for e in calls} for calls in at.values()]):
                return Differing(
                    number, {r: _words(calls[0]) for r, calls in at.items()}, tuple(calls[0] for calls in at.values())
                )
    return None


def _by_size(seen: EvidenceSet) -> dict[int, dict[int, list[Called]]]:
    found: dict[int, dict[int, list[Called]]] = defaultdict(lambda: defaultdict(list))
    for each in seen.all(CollectiveCalled):
        rank = who(each)
        if rank is not None:
            found[each.fact.size][rank].append(each)
    return found


def _words(call: Called) -> str:
    return f"{call.fact.op}[{call.fact.count}, type {call.fact.dtype}]"


def _disjoint(calls: list[set[str]]) -> bool:
    """Whether some rank has no call in common with the first; all calls of one launch share a number."""
    return any(not calls[0] & other for other in calls[1:])
