# SPDX-License-Identifier: Apache-2.0
"""SYN052: the flight recorder shows a rank that did not join a collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from keepstep.core import wording
from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.sync import RecordedCollective
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule
from keepstep.core.stacks import place

Entry = Evidence[RecordedCollective]


@dataclass
class Group:
    """The recorded collectives of one process group, by rank and sequence number."""

    name: str
    members: tuple[int, ...] = ()
    by_rank: dict[int, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))

    def last(self, rank: int) -> Entry:
        entries = self.by_rank[rank]
        return entries[max(entries)]


def groups(seen: EvidenceSet) -> list[Group]:
    """The process groups; the same name with other members is another group."""
    found: dict[tuple[str, tuple[int, ...]], Group] = {}
    for each in seen.all(RecordedCollective):
        rank = each.who
        if rank is None:
            continue
        key = (each.fact.group, each.fact.members)
        group = found.setdefault(key, Group(each.fact.group, each.fact.members))
        group.by_rank[rank][each.fact.seq] = each
    return list(found.values())


def is_pending(entry: Entry) -> bool:
    return entry.fact.state != "completed"


def words(entry: Entry) -> str:
    """``all_reduce #6 (train.py:26, in step())``."""
    where = f" ({place(entry.fact.frame)})" if entry.fact.frame else ""
    return f"{entry.fact.op} #{entry.fact.seq}{where}"


def called(entry: Entry) -> str:
    """``all_reduce #6``."""
    return f"{entry.fact.op} #{entry.fact.seq}"


@rule(
    id="SYN052",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(RecordedCollective,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.NETWORK_TIMEOUT_SLOW, Cause.NETWORK_CONNECTION_RESET_PEER_DIED),
)
def behind_in_flight_recorder(seen: EvidenceSet) -> Iterator[Found]:
    """The flight recorder shows ranks waiting in a collective that another rank did not join.

    ## What it looks like
    Dumps named `nccl_trace_rank_N` or `comm_lib_trace_rank_N`, written when a collective timed out. In one
    process group, some ranks have an unfinished collective with a number that another rank has not reached.

    ## Why it happens
    The rank that is behind was held up or had left: it ran out of data, took another branch, waited for a
    lock, a file or its input, or died.

    ## How we know
    Every rank numbers the collectives of a group the same way. The waiting ranks recorded number n as
    unfinished; the named rank recorded only smaller numbers, all finished, and waits in no other group.

    ## What to do
    Look at what the named rank did after its last collective: its stack and its log.

    ## When this is wrong
    The dumps were taken at different times, or their ring buffer (`TORCH_FR_BUFFER_SIZE`) was too small.
    """
    found = groups(seen)
    waiting_somewhere = {r for group in found for r in group.by_rank if is_pending(group.last(r))}
    blamed: set[int] = set()
    for group in found:
        furthest = max(max(entries) for entries in group.by_rank.values())
        ahead = [
            r for r, entries in sorted(group.by_rank.items()) if furthest in entries and is_pending(entries[furthest])
        ]
        behind = [r for r, entries in sorted(group.by_rank.items()) if max(entries) < furthest]
        absent = sorted(set(group.members) - set(group.by_rank))
        if not ahead:
            continue
        guilty = [r for r in behind if r not in waiting_somewhere]
        if guilty:
            if not set(guilty) <= blamed:
                yield _behind(group, guilty, ahead, furthest)
            blamed.update(guilty)
        elif not behind and absent and len(group.by_rank) > 0:
            yield _absent(group, absent, ahead, furthest)


def _behind(group: Group, guilty: list[int], ahead: list[int], furthest: int) -> Found:
    waited = group.by_rank[ahead[0]][furthest]
    last = group.last(guilty[0])
    return Found(
        title=f"{wording.ranks(guilty)} did not join {called(waited)}, in which {wording.ranks(ahead)} waited",
        because=(
            f"in group {group.name}, {wording.ranks(ahead)} recorded {words(waited)} as {waited.fact.state}; "
            f"the last record of {wording.ranks(guilty)} is {words(last)}, finished"
        ),
        evidence=(last, *(group.by_rank[r][furthest] for r in ahead)),
        ranks=tuple(guilty),
        fixes=(
            Fix(
                do=f"look at what {wording.ranks(guilty)} did after {called(last)}: "
                "the log, and the stack while it is alive"
            ),
            Fix(do="compare the stacks of a live job", command="keepstep why --live"),
        ),
    )


def _absent(group: Group, absent: list[int], ahead: list[int], furthest: int) -> Found:
    waited = group.by_rank[ahead[0]][furthest]
    return Found(
        title=f"{wording.ranks(ahead)} waited in {called(waited)}; {wording.ranks(absent)} left no dump",
        because=(
            f"group {group.name} also has {wording.ranks(absent)}, which died before a dump was written, "
            "or the dump is not here"
        ),
        evidence=tuple(group.by_rank[r][furthest] for r in ahead),
        ranks=tuple(absent),
        confidence=Confidence.HYPOTHESIS,
        fixes=(Fix(do=f"look at the log of {wording.ranks(absent)}, and collect the dump too"),),
    )
