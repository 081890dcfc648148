# SPDX-License-Identifier: Apache-2.0
"""SYN001: ranks ran different collectives at the same place."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from keepstep.model.facts import (
    CollectiveCalled,
    CollectiveMismatch,
    CollectiveProgress,
    CollectiveTimeout,
    ProcessExited,
)
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    rule,
)
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.sync._first_difference import first_mismatch
from keepstep.rules.sync._waiting import differing, group_of, waiting, who

_VARY = ("SEND", "RECV", "ALLTOALL", "COALESCED", "HEARTBEAT", "UNKNOWN", "GATHER_V", "ALLGATHERV")

_FIXES = (
    Fix(
        do="have PyTorch compare every collective between ranks and name the line",
        command="export TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
    ),
    Fix(do="make every rank run the same layers, branches and number of steps; broadcast decisions to stop"),
)


@rule(
    id="SYN001",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(CollectiveMismatch, CollectiveTimeout, CollectiveCalled),
    explains=SEEN_BY_OTHER_RANKS,
)
def collective_mismatch(seen: EvidenceSet) -> Findings:
    """Ranks ran different collectives at the same point, or the same one with different sizes.

    ## What it looks like
    `Detected mismatch between collectives on ranks`, gloo's `op.preamble.length <= op.nbytes`, NCCL's
    `Mismatched collective detected`; or watchdog timeouts that show, for one sequence number, an
    `ALLREDUCE` of 64 elements on one rank and a `BROADCAST` of millions on another. With
    `NCCL_DEBUG_SUBSYS=COLL`, the log shows the calls themselves: `Broadcast: opCount 0 ... count 53` on one rank,
    `count 25503912` on another.

    ## Why it happens
    A branch that depends on the rank or on its data (an empty batch, a missing modality, a layer that is
    skipped, early stopping decided by one rank) makes one rank run different collectives from the rest.

    ## How we know
    The library compared them and reported the difference; or the timeouts of the ranks, or the calls that NCCL
    printed, differ in operation or size at the same sequence number of the same group.

    ## What to do
    Run once with `TORCH_DISTRIBUTED_DEBUG=DETAIL`; make the branch the same on all ranks.

    ## When this is wrong
    Sequence numbers count per process group, so timeouts of different groups must not be compared. Where the
    group is not printed, we assume that equal numbers belong to the same group. After a rank was killed, the next
    exchange between the remaining ranks may not match either; where a launcher says which rank was killed first,
    we do not report a mismatch.
    """
    if first_mismatch(seen) is not None:
        return  # the guard's own record names the rank and its line: SYN206 reports it
    killed = _killed_first(seen)
    said = [e for e in seen.all(CollectiveMismatch) if not seen.survived(e) and (not killed or who(e) in killed)]
    if said:
        yield _said(said)
        return
    found = _by_sequence(seen) or _by_calls(seen) or _out_of_step(seen) or _unnumbered(seen)
    if found is not None:
        yield found


def _killed_first(seen: EvidenceSet) -> set[int]:
    """Ranks that were killed before anything else happened: what the rest exchange afterwards need not match."""
    ends = [e for e in seen.all(ProcessExited) if e.fact.first and e.fact.signal == "SIGKILL"]
    return {rank for e in ends if (rank := who(e)) is not None}


def _said(said: list[Evidence[CollectiveMismatch]]) -> Found:
    prints: dict[int, str] = {}
    for e in said:
        if e.fact.rank is not None and e.fact.left:
            prints[e.fact.rank] = e.fact.left
        if e.fact.other_rank is not None and e.fact.right:
            prints[e.fact.other_rank] = e.fact.right
    culprits = _odd(prints) or tuple(prints)
    if not culprits:
        culprits = tuple(dict.fromkeys(e.fact.other_rank for e in said if e.fact.other_rank is not None))
    if not culprits:
        culprits = tuple(dict.fromkeys(r for e in said if (r := who(e)) is not None))
    first = said[0].fact
    sides = f": {first.left} and {first.right}" if first.left and first.right else ""
    return Found(
        title=f"ranks ran different collectives at the same point{sides}",
        because="the library compared what the ranks were running and found a difference"
        if sides
        else "what the ranks sent each other at one point does not match",
        evidence=tuple(said),
        ranks=culprits if len(culprits) <= 2 else (),
        fixes=_FIXES,
    )


def _odd(prints: dict[int, str]) -> tuple[int, ...]:
    """The ranks that ran something different from the majority."""
    if len(prints) < 3:
        return ()
    common, votes = Counter(prints.values()).most_common(1)[0]
    return tuple(r for r, p in prints.items() if p != common) if votes * 2 > len(prints) else ()


def _by_sequence(seen: EvidenceSet) -> Found | None:
    """Timeouts with one sequence number and different operations or sizes."""
    places: dict[tuple[str | None, int], dict[int, Evidence[CollectiveTimeout]]] = defaultdict(dict)
    for rank, events in waiting(seen).items():
        for e in events:
            fact = e.fact
            if fact.seq is None or fact.op is None or fact.op.upper().startswith(_VARY):
                continue
            places[group_of(seen, e), fact.seq].setdefault(rank, e)
    _join_unknown(places)
    for (_, seq), ranks in places.items():
        prints = {r: f"{e.fact.op}[{'' if e.fact.numel_in is None else e.fact.numel_in}]" for r, e in ranks.items()}
        if len(set(prints.values())) < 2 or _only_sizes_missing(prints):
            continue
        culprits = _odd(prints) or _least_far(seen, tuple(ranks)) or tuple(ranks)
        left, right = list(dict.fromkeys(prints.values()))[:2]
        return Found(
            title=f"ranks ran collective {seq} differently: {left} and {right}",
            because=f"the timeouts of collective {seq} name different operations or sizes; {differing(culprits)}",
            evidence=tuple(ranks.values()),
            ranks=culprits if len(culprits) <= 2 else (),
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
    return None


def _by_calls(seen: EvidenceSet) -> Found | None:
    """The calls that NCCL printed with one number."""
    differ = differing_calls(seen)
    if differ is None:
        return None
    culprits = _odd(differ.said) or tuple(differ.said)
    left, right = list(dict.fromkeys(differ.said.values()))[:2]
    return Found(
        title=f"ranks called collective {differ.number} differently: {left} and {right}",
        because=f"NCCL printed what each rank called; {differing(culprits)}",
        evidence=differ.evidence,
        ranks=culprits if len(culprits) <= 2 else (),
        confidence=Confidence.SUPPORTED,
        fixes=_FIXES,
    )


def _join_unknown(places: dict[tuple[str | None, int], dict[int, Evidence[CollectiveTimeout]]]) -> None:
    """Assign a timeout without a group to the only group that has the same number."""
    for group, seq in [key for key in places if key[0] is None]:
        same = [key for key in places if key[0] is not None and key[1] == seq]
        if len(same) == 1:
            for rank, e in places.pop((group, seq)).items():
                places[same[0]].setdefault(rank, e)


def _only_sizes_missing(prints: dict[int, str]) -> bool:
    """Whether they differ only because some lines do not print the size."""
    return len({p.partition("[")[0] for p in prints.values()}) == 1 and any(p.endswith("[]") for p in prints.values())


def _least_far(seen: EvidenceSet, among: tuple[int, ...]) -> tuple[int, ...]:
    last: dict[int, int] = {}
    for e in seen.all(CollectiveProgress):
        rank = who(e)
        if rank in among and e.fact.last_enqueued is not None:
            last.setdefault(rank, e.fact.last_enqueued)
    if len(last) < 2 or len(set(last.values())) < 2:
        return ()
    least = min(last.values())
    return tuple(r for r, n in last.items() if n == least)


def _out_of_step(seen: EvidenceSet) -> Found | None:
    """Every rank waits, but not all in the same collective of the default group."""
    first: dict[int, Evidence[CollectiveTimeout]] = {}
    for rank, events in waiting(seen).items():
        for e in events:
            if e.fact.seq is not None and e.fact.op is not None and e.fact.op != "HEARTBEAT":
                first.setdefault(rank, e)
    groups = {group_of(seen, e) for e in first.values()}
    if len(first) < 2 or len(groups) > 1:
        return None
    if len({e.fact.seq for e in first.values()}) < 2 or len({(e.fact.op, e.fact.numel_in) for e in first.values()}) < 2:
        return None
    least = min(e.fact.seq or 0 for e in first.values())
    behind = tuple(r for r, e in first.items() if e.fact.seq == least)
    if len(behind) * 2 > len(first) and len(first) > 2:
        behind = tuple(r for r in first if r not in behind)
    return Found(
        title="ranks waited for each other in different collectives",
        because=f"{say_ranks(behind)} waited in a different collective from the rest",
        evidence=tuple(first.values()),
        ranks=behind if len(behind) <= 2 else (),
        confidence=Confidence.SUPPORTED,
        standing=Standing.SYMPTOM,
        fixes=_FIXES,
    )


def _unnumbered(seen: EvidenceSet) -> Found | None:
    """One rank waits in a different operation from the rest, in logs of versions that print no numbers."""
    first: dict[int, Evidence[CollectiveTimeout]] = {}
    for rank, events in waiting(seen).items():
        for e in events:
            # gloo's send and recv are the two ends of any collective
            if e.fact.op is not None and e.fact.op not in ("HEARTBEAT", "send", "recv"):
                first.setdefault(rank, e)
    if any(e.fact.seq is not None for e in first.values()) or len({group_of(seen, e) for e in first.values()}) > 1:
        return None
    odd = _odd({r: e.fact.op or "" for r, e in first.items()})
    if len(odd) != 1:
        return None
    mine = first[odd[0]].fact.op
    return Found(
        title=f"{say_ranks(odd)} waited in {mine}, the other ranks in a different collective",
        because=f"the timeouts name different operations; {differing(odd)}",
        evidence=tuple(first.values()),
        ranks=odd,
        confidence=Confidence.SUPPORTED,
        fixes=_FIXES,
    )


# --- What each rank passed to its library for one collective, where the library prints it.

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
