# SPDX-License-Identifier: Apache-2.0
"""SYN209: a watchdog around the run saw no progress and ended it."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout, NoProgress, RanksMissing, TimeoutHeardOf
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.timelines import behind, late
from keepstep.story.rank_endings import clearly_after


@rule(
    id="SYN209",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(NoProgress,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.PREEMPTION_SIGTERM, Cause.UNKNOWN_NOT_ESTABLISHED),
)
def no_progress(seen: EvidenceSet) -> Findings:
    """The run made no progress, and a watchdog around it ended it.

    ## What it looks like
    `no progress for 35 s, cancelling rank 0`, `no heartbeat from rank 3 for 120 s, terminating the job`, and then
    SIGTERM or SIGKILL on every rank. The ranks themselves report no failure.

    ## Why it happens
    One rank is stuck, or busy with something that the others wait for, and the collective has no time limit or a
    longer one than the watchdog.

    ## How we know
    The watchdog says for how long it saw nothing before it ended the run. The rank is the one that it names, the one
    that got less far than the others, or the one whose last line says that it was busy.

    ## What to do
    Print the stack of every rank before the watchdog ends them.

    ## When this is wrong
    The run was only slow, for example while it compiled, and the limit of the watchdog is too short.
    """
    gave_up = [e for e in seen.all(NoProgress) if not seen.survived(e)]
    if not gave_up or any(seen.all(kind) for kind in (CollectiveTimeout, RanksMissing, TimeoutHeardOf)):
        return
    if any(clearly_after(gave_up[0], ended) for ended in seen.bad_exits):
        return  # the others had no one to go on with
    named = tuple(dict.fromkeys(rank for e in gave_up for rank in e.fact.missing))
    busy = late(seen, set())
    slow = behind(seen)
    ranks, why = named, f"the watchdog heard nothing from {say_ranks(named)}" if named else ""
    if not ranks and len(busy) == 1:
        ranks, why = (busy[0].rank,), f"the last line of rank {busy[0].rank} says that it was {busy[0].doing}"
    if not ranks and slow:
        ranks, why = tuple(e.who for e in slow if e.who is not None), "it got less far than the other ranks"
    seconds = next((e.fact.seconds for e in gave_up if e.fact.seconds), None)
    yield Found(
        title=f"the run made no progress{f' for {duration(seconds)}' if seconds else ''}, and a watchdog ended it",
        because=why or "a watchdog ended the run because nothing moved; nothing shows which rank was stuck",
        evidence=(*gave_up[:3], *(each.evidence for each in busy[:2]), *slow[:2]),
        ranks=ranks if len(ranks) <= 2 else (),
        fixes=(
            Fix(do="let the watchdog print every rank's stack before it ends them", command="py-spy dump --pid PID"),
            Fix(do="look for collectives, barriers, saves or evaluations that only some ranks reach"),
        ),
    )
