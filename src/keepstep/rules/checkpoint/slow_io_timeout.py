# SPDX-License-Identifier: Apache-2.0
"""CKP003: ranks timed out while a checkpoint was being written or read."""

from __future__ import annotations

from keepstep.model.facts import (
    CollectiveTimeout,
    ExceptionRaised,
    Fact,
    FatalSignal,
    NativeAbort,
    PeerLost,
    Phase,
    PhaseSeen,
    RanksMissing,
    SlowStorage,
    StepSeen,
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
    duration,
    rule,
)
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.exceptions import is_of_peers, is_wrapper
from keepstep.rules.asking.timelines import LOADING, SAVING, LateAtEnd, late

MOST_BUSY = 2
"""If more ranks than this are busy, none of them keeps the others waiting alone."""

GATHERS = ("ALLGATHER", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST", "SCATTER", "SEND", "RECV")
"""A save that is itself stuck in one of these was not slow: some rank did not take part."""


@rule(
    id="CKP003",
    cause=Cause.CHECKPOINT_SLOW_IO_TIMEOUT,
    needs=(CollectiveTimeout, RanksMissing, SlowStorage),
    confidence=Confidence.SUPPORTED,
    explains=(*SEEN_BY_OTHER_RANKS, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def slow_io_timeout(seen: EvidenceSet) -> Findings:
    """The other ranks timed out while one was still writing or reading a checkpoint.

    ## What it looks like
    The last ordinary line is `Saving checkpoint` or `Retrieving full model state dict`; then, exactly one
    time limit later, ranks report that a collective timed out, usually a small all-reduce or a barrier.

    ## Why it happens
    One rank gathers and writes the whole model to a slow or remote file system. That takes longer than the time
    limit of the collective in which the others wait.

    ## How we know
    From the order of the lines: saving began, no step was printed after it, and then the wait timed out.

    ## What to do
    Raise the time limit around saving, write sharded or asynchronously, or write to faster storage.

    ## When this is wrong
    If the save is inside `if rank == 0:` although it needs all ranks, no time limit is long enough.
    """
    waited = [e for e in seen.all(CollectiveTimeout) if not any(word in (e.fact.op or "").upper() for word in GATHERS)]
    slow = [e for e in seen.all(SlowStorage) if not _waits_for_the_dead(seen, e)]
    missing = seen.all(RanksMissing)
    if slow and (waited or missing or seen.broken):
        yield _found(seen, (*slow[:3], *waited[:3]), None)
        return
    stuck_itself = len(waited) < len(seen.all(CollectiveTimeout))
    busy = _busy(seen)
    if busy and not stuck_itself:
        yield _awaited(seen, busy)
        return
    if not waited or stuck_itself:
        return
    position = seen.position
    first = min(position[id(e)] for e in waited)
    before = [e for e in seen.items[:first] if isinstance(e.fact, (PhaseSeen, StepSeen))]
    phases = [e for e in before if isinstance(e.fact, PhaseSeen)]
    if (
        not phases
        or not isinstance(phases[-1].fact, PhaseSeen)
        or phases[-1].fact.phase not in (Phase.SAVING, Phase.RESTORING)
    ):
        return
    saving = phases[-1]
    steps = [e for e in before if isinstance(e.fact, StepSeen) and position[id(e)] > position[id(saving)]]
    if any(e.origin.line != saving.origin.line for e in steps) or _failed_before(seen, first):
        return
    yield _found(seen, (saving, *waited[:6]), saving)


def _failed_before(seen: EvidenceSet, first: int) -> bool:
    """Whether a rank had failed for a reason of its own when the wait of the others timed out: it was not slow."""
    return any(
        seen.position[id(e)] < first or e.who not in {waiting.who for waiting in seen.all(CollectiveTimeout)}
        for e in seen.all(ExceptionRaised)
        if not seen.survived(e) and not seen.merely_logged(e) and not is_of_peers(e.fact) and not is_wrapper(e.fact)
    )


def _busy(seen: EvidenceSet) -> list[LateAtEnd]:
    """The few ranks that the others waited for, if the last that each of them says is that it saves or loads."""
    waiting = {e.who for e in seen.all(CollectiveTimeout) if e.who is not None and not seen.survived(e)}
    missing = {rank for e in seen.all(RanksMissing) if not seen.survived(e) for rank in e.fact.missing}
    if not missing:
        missing = {each.rank for each in late(seen, waiting)} if waiting else set()
    found = [each for each in late(seen, waiting) if each.rank in missing and each.doing in (SAVING, LOADING)]
    return found if missing and len(missing) == len(found) <= MOST_BUSY else []


def _awaited(seen: EvidenceSet, busy: list[LateAtEnd]) -> Found:
    ranks = tuple(each.rank for each in busy)
    said = [e for kind in (RanksMissing, CollectiveTimeout) for e in seen.all(kind) if not seen.survived(e)]
    return Found(
        title=f"{say_ranks(ranks)} {'was' if len(ranks) == 1 else 'were'} still {busy[0].doing} "
        "while all other ranks waited for it",
        because=f"{say_ranks(ranks)} did not join them, and the end of its output shows that work",
        evidence=(*(each.evidence for each in busy), *said[:3]),
        ranks=ranks,
        fixes=(
            Fix(do="look at the path between this host and the storage", command="dd if=CKPT_FILE of=/dev/null bs=64M"),
            Fix(do="give the barrier a time limit, so one slow reader or writer ends the attempt"),
        ),
    )


def _waits_for_the_dead(seen: EvidenceSet, slow: Evidence[SlowStorage]) -> bool:
    """Whether it is only a barrier of a save that timed out, and a rank that it waited for had crashed or was lost."""
    awaited = {rank for e in seen.near(slow, RanksMissing, before=1, after=1) for rank in e.fact.missing}
    if not awaited:
        return False
    raised = {e.who for e in seen.all(ExceptionRaised) if not seen.survived(e) and not seen.merely_logged(e)}
    ended = {e.who for e in (*seen.all(FatalSignal), *seen.bad_exits, *seen.all(NativeAbort))}
    lost = {e.fact.peer_rank for e in seen.all(PeerLost)}
    return bool(awaited & (raised | ended | lost))


def _found(seen: EvidenceSet, evidence: tuple[Evidence[Fact], ...], saving: Evidence[Fact] | None) -> Found:
    timed_out = {e.who for e in seen.all(CollectiveTimeout) if e.who is not None}
    writer = saving.who if saving is not None and saving.who is not None and saving.who not in timed_out else None
    if writer is None and 0 not in timed_out:
        writer = 0
    limit = next((e.fact.timeout_ms for e in seen.all(CollectiveTimeout) if e.fact.timeout_ms), None)
    after = f" after {duration(limit / 1000)}" if limit else ""
    doing = "reading" if saving is not None and _phase(saving) is Phase.RESTORING else "saving"
    who = f"rank {writer}" if writer is not None else "one rank"
    return Found(
        title=f"ranks timed out{after} while {who} was {doing} a checkpoint",
        because=(
            f"{doing} a checkpoint is the last thing the run did, "
            "while the other ranks waited in a collective until their time limit"
        ),
        evidence=evidence,
        ranks=(writer,) if writer is not None else None,
        fixes=(
            Fix(
                do="raise the time limit of collectives above the time that saving takes",
                code='torch.distributed.init_process_group("nccl", timeout=datetime.timedelta(hours=2))',
            ),
            Fix(do="write sharded, or asynchronously", code="torch.distributed.checkpoint.async_save(...)"),
            Fix(
                do="measure the file system from the rank that writes",
                command="dd if=/dev/zero of=CKPT_DIR/x bs=64M count=64 oflag=direct",
            ),
        ),
    )


def _phase(evidence: Evidence[Fact]) -> Phase | None:
    return evidence.fact.phase if isinstance(evidence.fact, PhaseSeen) else None
