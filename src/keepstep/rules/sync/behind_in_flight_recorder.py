# SPDX-License-Identifier: Apache-2.0
"""SYN052: the flight recorder shows a rank that did not join a collective."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keepstep.base import wording
from keepstep.model.facts import RecordedCollective, SendsUnrecorded
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.sync._flight_recorders import (
    Entry,
    RecordedGroup,
    called,
    groups,
    is_pending,
    recorded,
    records,
    unreadable,
    words,
)
from keepstep.story.wait_graph import Collective, Stuck, WaitSource, origins

MOST_SHOWN = 8


@rule(
    id="SYN052",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(RecordedCollective,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.NETWORK_TIMEOUT_SLOW, Cause.NETWORK_CONNECTION_RESET_PEER_DIED),
)
def behind_in_flight_recorder(seen: EvidenceSet) -> Findings:
    """The flight recorder shows ranks waiting in a collective that another rank did not join or start.

    ## What it looks like
    Dumps named `nccl_trace_rank_N` or `comm_lib_trace_rank_N`, written when a collective timed out. In one
    process group, some ranks have an unfinished collective with a number that another rank has not reached.

    ## Why it happens
    The rank that is behind was held up or had left: it ran out of data, took another branch, waited for a
    lock, a file or its input, or died.

    ## How we know
    Every rank numbers the collectives of a group the same way. A rank that is in number n waits for the members
    that have not been handed n, or whose device has not begun it. We follow these waits through all groups to the
    ranks that wait for nobody, and name only those. A rank that left out a collective may wait later, in a circle:
    then its counts, ahead along one axis of the mesh and behind along another, fit to no other rank's.

    ## What to do
    Look at what the named rank did after its last collective: its stack and its log.

    ## When this is wrong
    The dumps were taken at different times, or their ring buffer (`TORCH_FR_BUFFER_SIZE`) was too small. gloo
    does not record sends and recvs: a rank that waits in one looks as if it waited for nobody.
    """
    found = groups(seen)
    by_name = {group.key: group for group in found}
    answer = origins([records(group) for group in found], recorded(seen))
    if answer.astray is not None:
        yield _went_on(found, by_name[answer.astray.at.group], answer.astray)
    unsure = bool(seen.all(SendsUnrecorded)) and len(answer.sources) > 1
    for at, sources in _by_place(answer.sources):
        if answer.astray is None or not unsure:
            yield _behind(by_name[at.group], at.number, sources, unsure)
    if not answer.sources:
        for at, sources in _by_place(answer.absent):
            yield _absent(by_name[at.group], at.number, sources, unreadable(seen))
    for ranks in answer.circles:
        if answer.astray is None and not any(group.own_name for group in found):
            yield _circle(found, ranks)
    for stuck in answer.stuck:
        group = by_name[stuck.at.group]
        if len(stuck.unfinished) < len(group.by_rank) and not group.own_name:
            yield _unfinished(group, stuck)


def _by_place(sources: Iterable[WaitSource]) -> Iterator[tuple[Collective, list[WaitSource]]]:
    """One finding for the ranks that are missing in the same collective in the same way."""
    places: dict[tuple[Collective, str], list[WaitSource]] = {}
    for source in sources:
        places.setdefault((source.at, source.how), []).append(source)
    for (at, _), found in places.items():
        yield at, found


def _waited(group: RecordedGroup, number: int, sources: list[WaitSource]) -> tuple[list[int], Entry]:
    """The ranks that wait in this collective, and the record of the first of them."""
    missing = {source.rank for source in sources}
    ahead = [r for r, entries in sorted(group.by_rank.items()) if number in entries and r not in missing]
    ahead = [r for r in ahead if is_pending(group.by_rank[r][number])]
    return ahead, group.by_rank[ahead[0]][number]


def _behind(group: RecordedGroup, number: int, sources: list[WaitSource], unsure: bool) -> Found:
    guilty = [source.rank for source in sources]
    ahead, waited = _waited(group, number, sources)
    last = [group.last(rank) for rank in guilty if group.by_rank.get(rank)]
    if sources[0].how == "not started":
        did, state = "did not start", "scheduled, which its device never began"
    else:
        did, state = "did not join", f"{words(last[0])}, finished" if last else ""
    more = sorted({rank for source in sources for rank in source.waiting} - {*ahead})
    follow = f"; {wording.ranks(more)} waited for the same ranks in other groups" if more else ""
    after = f"after {called(last[0])}" if last else "instead"
    return Found(
        title=f"{wording.ranks(guilty)} {did} {called(waited)}, in which {wording.ranks(ahead)} waited",
        because=(
            f"in group {group.name}, {wording.ranks(ahead)} recorded {words(waited)} as {waited.fact.state}; "
            + (f"the last record of {wording.ranks(guilty)} is {state}" if state else _unrecorded(guilty))
            + follow
            + ("; gloo does not record sends and recvs, so it may wait in one" if unsure else "")
            + ("; the ranks number this group for themselves, so it may be several" if group.own_name else "")
        ),
        evidence=(*last, *(group.by_rank[r][number] for r in ahead[:MOST_SHOWN])),
        ranks=tuple(guilty),
        confidence=Confidence.HYPOTHESIS if unsure or group.own_name else None,
        fixes=(
            Fix(do=f"look at what {wording.ranks(guilty)} did {after}: the log, and the stack while it is alive")
            if sources[0].how == "not scheduled"
            else Fix(do="look at the devices of these ranks", command="nvidia-smi -q; dmesg -T | grep -i xid"),
            Fix(do="compare the stacks of a live job", command="keepstep why --live"),
        ),
    )


def _went_on(found: list[RecordedGroup], group: RecordedGroup, source: WaitSource) -> Found:
    """A rank left out a collective, and waits in a later one of another group."""
    rank, number = source.rank, source.at.number
    ahead, waited = _waited(group, number, [source])
    later = [e for each in found if rank in each.by_rank and is_pending(e := each.last(rank))]
    last = later[0] if later else group.last(rank)
    return Found(
        title=f"rank {rank} did not join {called(waited)}, in which {wording.ranks(ahead)} waited, and went on",
        because=(
            f"in group {group.name}, {wording.ranks(ahead)} recorded {words(waited)} as {waited.fact.state}; "
            f"rank {rank} went on to {words(last)} of group {last.fact.group}, "
            "and no other rank is ahead in one group and behind in another"
        ),
        evidence=(last, *(group.by_rank[r][number] for r in ahead[:MOST_SHOWN])),
        ranks=(rank,),
        fixes=(
            Fix(do=f"look for the branch in which rank {rank} leaves out {words(waited)}"),
            Fix(do="let every rank call the same collectives in the same order"),
        ),
    )


def _unrecorded(guilty: list[int]) -> str:
    return f"{wording.ranks(guilty)} {'has' if len(guilty) == 1 else 'have'} no record of it"


def _absent(group: RecordedGroup, number: int, sources: list[WaitSource], unread: set[int]) -> Found:
    absent = [source.rank for source in sources]
    without = "left a dump that cannot be read" if unread.issuperset(absent) else "left no dump"
    ahead, waited = _waited(group, number, sources)
    return Found(
        title=f"{wording.ranks(ahead)} waited in {called(waited)}; {wording.ranks(absent)} {without}",
        because=(
            f"group {group.name} also has {wording.ranks(absent)}, which died before the dump was written, "
            "or the dump is not here"
        )
        if not unread.issuperset(absent)
        else f"group {group.name} lacks a member, and the dump of {wording.ranks(absent)} is empty or damaged",
        evidence=tuple(group.by_rank[r][number] for r in ahead[:MOST_SHOWN]),
        ranks=tuple(absent),
        confidence=Confidence.HYPOTHESIS,
        fixes=(Fix(do=f"look at the log of {wording.ranks(absent)}, and collect the dump too"),),
    )


def _circle(found: list[RecordedGroup], ranks: tuple[int, ...]) -> Found:
    pending = [group.last(r) for group in found for r in ranks if r in group.by_rank and is_pending(group.last(r))]
    return Found(
        title=f"{wording.ranks(ranks)} wait for each other in collectives of different groups",
        because=(
            "each is in a collective that another of them has not joined: "
            + wording.listing(f"rank {e.who} in {words(e)} of group {e.fact.group}" for e in pending[:MOST_SHOWN])
        ),
        evidence=tuple(pending[:MOST_SHOWN]),
        ranks=ranks,
        fixes=(Fix(do="let every rank enter the collectives of these groups in the same order"),),
    )


def _unfinished(group: RecordedGroup, stuck: Stuck) -> Found:
    entries = [group.by_rank[rank][stuck.at.number] for rank in stuck.unfinished]
    who = wording.ranks(stuck.unfinished)
    return Found(
        title=f"{who} started {called(entries[0])} and did not finish it; the others of the group did",
        because=f"in group {group.name}, {words(entries[0])} is unfinished on {who} only",
        evidence=tuple(entries[:MOST_SHOWN]),
        ranks=stuck.unfinished,
        fixes=(Fix(do="look at the devices of these ranks", command="nvidia-smi -q; dmesg -T | grep -i xid"),),
    )
