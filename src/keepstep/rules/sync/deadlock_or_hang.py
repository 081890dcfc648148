# SPDX-License-Identifier: Apache-2.0
"""SYN002: ranks waited in a collective that others never entered."""

from __future__ import annotations

from keepstep.model.facts import (
    CollectiveTimeout,
    ConnectFailed,
    Fact,
    PeerLost,
    PhaseSeen,
    RanksMissing,
    RdmaTrouble,
    RecordedCollective,
    TimeoutHeardOf,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Standing,
    duration,
    rule,
)
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.timelines import late
from keepstep.rules.sync._waiting import also_there, entered, group_of, occupied, others, waiting, was, who
from keepstep.story.rank_endings import clearly_after

FEW = 100
"""Sequence numbers further apart than this hardly belong to the same group."""
_NOBODY = (
    "every known rank waited in a collective and none is known to be missing, "
    "so a link, the network or a GPU is as likely a cause as the program"
)
_PERHAPS = "rank 0 is not among the ranks that timed out; the usual reason is work that only rank 0 does"


@rule(
    id="SYN002",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(CollectiveTimeout, TimeoutHeardOf, RanksMissing),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED,),
)
def deadlock_or_hang(seen: EvidenceSet) -> Findings:
    """Ranks waited in a collective until their time limit, because another rank did not join.

    ## What it looks like
    `Watchdog caught collective operation timeout`, `Timed out waiting 1800000ms for recv operation`,
    `Rank 2 failed to pass monitoredBarrier`, `Received a dump signal due to a collective timeout`.

    ## Why it happens
    One rank is busy with something the other ranks do not do: it prepares data, evaluates, saves or logs behind
    `if rank == 0`, with a collective inside or around that code; or it is stuck in its loader or on a lock; or it
    died silently.

    ## How we know
    A timeout names the rank that waited. The rank it waited for is the one that the barrier names, the one whose
    last collective is an earlier one, the one that only learned of the timeout from another rank, or the one that
    was busy with something else.

    ## What to do
    Look at what the named rank was doing. Move collectives out of rank-dependent branches, or let all ranks
    take part. If the work is legitimate but long, raise the time limit.

    ## When this is wrong
    A broken link or GPU makes every rank wait in the same collective; then no rank is missing.
    """
    missing = [e for e in seen.all(RanksMissing) if e.fact.final and not seen.survived(e) and not _broke_off(seen, e)]
    if seen.all(RecordedCollective):  # those whom torchfrtrace misses may wait themselves: SYN052 follows them
        missing = [e for e in missing if e.fact.what != "flight recorder"]
    timed = {rank: events for rank, events in waiting(seen).items()}
    events: list[Evidence[Fact]] = [e for e in seen.all(CollectiveTimeout) if not seen.survived(e)]
    heard = list(seen.all(TimeoutHeardOf))
    if not (missing or events or heard):
        return
    if not missing and not heard and not _certain(events) and _has_reason(seen):
        return
    culprits, how, extra = _culprits(seen, missing, set(timed))
    waited = _limit(events)
    op = _operation(events)
    if culprits and how == _PERHAPS:
        title = f"{_waiters(timed, culprits)} waited {waited} in {op}, perhaps for rank 0"
    elif culprits:
        title = f"{say_ranks(culprits)} did not join {op}; {_waiters(timed, culprits)} waited {waited}"
    else:
        title = f"{_waiters(timed, ())} waited {waited} in {op} until the time limit"
    evidence = (*missing[:3], *events[:6], *heard[:3], *extra)
    yield Found(
        title=title,
        because=how,
        evidence=tuple({id(e): e for e in evidence}.values()),
        ranks=culprits if len(culprits) <= 2 else (),
        confidence=(
            Confidence.SUPPORTED
            if (culprits and how != _PERHAPS) or _lost_afterwards(seen, events)
            else Confidence.HYPOTHESIS
        ),
        fixes=(
            Fix(do="the next time it hangs, print each rank's stack", command="py-spy dump --pid PID"),
            Fix(do="look for collectives, barriers, saves or evaluations behind `if rank == 0`")
            if how != _NOBODY
            else Fix(
                do="run once without direct access between GPUs", command="export NCCL_P2P_DISABLE=1 NCCL_DEBUG=INFO"
            ),
            Fix(
                do="raise the time limit, if the rank was only slow",
                code="dist.init_process_group(..., timeout=datetime.timedelta(hours=2))",
                safety=Safety.SAFE,
            ),
        ),
    )


def _broke_off(seen: EvidenceSet, missing: Evidence[RanksMissing]) -> bool:
    """Whether a barrier failed because the peer broke the connection, not because the peer never arrived."""
    return "received errors" in missing.quote and bool(seen.near(missing, PeerLost, after=3))


def _lost_afterwards(seen: EvidenceSet, events: list[Evidence[Fact]]) -> bool:
    """Whether each peer was lost, in the same log, only after a rank had timed out: what they saw was its exit."""
    waits = [e for e in events if isinstance(e.fact, CollectiveTimeout) and e.fact.op in ("recv", "send")]
    lost = [e for e in seen.all(PeerLost) if not seen.survived(e)]
    return bool(waits and lost) and all(
        any(w.origin.source == e.origin.source and (w.origin.line or 0) < (e.origin.line or 0) for w in waits)
        for e in lost
    )


def _has_reason(seen: EvidenceSet) -> bool:
    """Whether the network explains a failed operation. Who lost a rank after it had timed out only saw its end."""
    first: dict[int, Evidence[Fact]] = {rank: events[0] for rank, events in waiting(seen).items() if events}
    lost = [e for kind in (PeerLost, ConnectFailed) for e in seen.all(kind) if not seen.survived(e)]
    told = {
        (e.who, e.fact.peer_rank)
        for e in lost
        if isinstance(e.fact, PeerLost | ConnectFailed) and e.fact.peer_rank is not None
    }
    ended = {rank for rank, peer in told if peer in first} - {rank for rank, peer in told if peer not in first}
    afterwards = [e for e in lost if e.who in ended and all(clearly_after(e, timed) for timed in first.values())]
    return len(afterwards) < len(lost) or bool(seen.all(RdmaTrouble))


def _certain(events: list[Evidence[Fact]]) -> bool:
    """Whether a message mentions a time limit, not just a failed operation."""
    return any(isinstance(e.fact, CollectiveTimeout) and (e.fact.op or e.fact.timeout_ms or e.fact.seq) for e in events)


def _culprits(
    seen: EvidenceSet, missing: list[Evidence[RanksMissing]], timed: set[int]
) -> tuple[tuple[int, ...], str, tuple[Evidence[Fact], ...]]:
    """The ranks that did not join, how we know, and the evidence; from the surest sign to the weakest."""
    if missing:
        named = tuple(dict.fromkeys(r for e in missing for r in e.fact.missing))
        return named, f"the waiting rank says that {say_ranks(named)} did not arrive", ()
    behind, there = entered(seen)
    absent = tuple(r for r in behind if r not in timed)
    if absent and len(absent) <= max(2, len(timed)):
        return (
            absent,
            f"the last collective of {say_ranks(absent)} comes before the one that the waiting ranks are in",
            (),
        )
    heard = [e for e in seen.all(TimeoutHeardOf) if (r := who(e)) is not None and r not in timed and r not in there]
    only = tuple(dict.fromkeys(r for e in heard if (r := who(e)) is not None))
    if only and (len(only) <= 2 or not timed):
        return (
            only,
            f"{say_ranks(only)} learned of the timeout from other ranks, without waiting in the collective",
            tuple(heard[:2]),
        )
    if timed and len(timed) <= 2 < len(set(only) | set(absent)):
        alone = tuple(sorted(timed))
        return (
            alone,
            f"{say_ranks(alone)} waited in a collective that the other ranks had not entered",
            tuple(heard[:2]),
        )
    slow = _lowest(seen)
    if slow:
        return slow, f"{say_ranks(slow)} still waited in an earlier collective than the other ranks", ()
    timed = timed | also_there(seen, timed) | set(there)
    now = late(seen, timed)
    if now and len(now) <= 2:
        still = tuple(each.rank for each in now)
        said = f"{say_ranks(still)} {was(still)} still {now[0].doing}, by the last line of its output"
        return still, said, tuple(each.evidence for each in now)
    busy = occupied(seen, timed)
    known = tuple(dict.fromkeys(r for e in busy if (r := who(e)) is not None))
    if known and len(known) <= 2:
        return known, f"{say_ranks(known)} {was(known)} busy elsewhere while the other ranks waited", busy[:2]
    unnamed = [e for e in busy if who(e) is None and isinstance(e.fact, PhaseSeen)]
    if unnamed and 0 not in timed:
        doing = unnamed[-1].fact
        what = doing.phase.value if isinstance(doing, PhaseSeen) else "something else"
        return (0,), f"rank 0 did not time out; the run was {what} just before", tuple(unnamed[-1:])
    rest = others(seen, timed)
    if rest and len(rest) <= 2 and timed:
        return rest, f"all but {say_ranks(rest)} timed out", ()
    if timed and 0 not in timed:
        return (0,), _PERHAPS, ()
    if timed and not rest:
        return (), _NOBODY, ()
    return (), "the ranks seen here waited; nothing shows which rank did not join", ()


def _lowest(seen: EvidenceSet) -> tuple[int, ...]:
    """Ranks that wait in an earlier collective than the rest, where all numbers belong to one group."""
    first: dict[int, tuple[str | None, int]] = {}
    for rank, events in waiting(seen).items():
        numbers = [(group_of(seen, e), e.fact.seq) for e in events if e.fact.seq is not None]
        if numbers:
            first[rank] = min(numbers, key=lambda pair: pair[1])
    if len({group for group, _ in first.values()}) != 1:
        return ()
    low = min(seq for _, seq in first.values())
    high = max(seq for _, seq in first.values())
    ranks = tuple(r for r, (_, seq) in first.items() if seq == low)
    return ranks if 0 < high - low <= FEW and len(ranks) <= 2 and len(ranks) < len(first) else ()


def _limit(events: list[Evidence[Fact]]) -> str:
    limits = [e.fact.timeout_ms for e in events if isinstance(e.fact, CollectiveTimeout) and e.fact.timeout_ms]
    return duration(limits[0] / 1000) if limits else "in vain"


def _operation(events: list[Evidence[Fact]]) -> str:
    for e in events:
        if isinstance(e.fact, CollectiveTimeout) and e.fact.op and e.fact.op != "HEARTBEAT":
            return f"{e.fact.op} {e.fact.seq}" if e.fact.seq is not None else e.fact.op
    return "a collective"


def _waiters(timed: dict[int, list[Evidence[CollectiveTimeout]]], culprits: tuple[int, ...]) -> str:
    names = [r for r in timed if r not in culprits]
    return say_ranks(names) if names else "other ranks" if culprits else "ranks"
