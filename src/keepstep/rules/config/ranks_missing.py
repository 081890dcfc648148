# SPDX-License-Identifier: Apache-2.0
"""CFG202: ranks waited for others that never arrived."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.arriving import RanksArriving
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import duration, listing
from keepstep.core.wording import ranks as say_ranks
from keepstep.rules.questions.arrivals import ranks_started, still_waiting


@rule(
    id="CFG202",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(RanksArriving,),
    standing=Standing.SYMPTOM,
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.UNKNOWN_NOT_ESTABLISHED,
    ),
)
def ranks_missing(seen: EvidenceSet) -> Iterator[Found]:
    """Ranks waited for others that never arrived: fewer were started than they were told of.

    ## What it looks like
    Nothing, for minutes: `init_process_group`, `jax.distributed.initialize` or a MultiWorkerMirroredStrategy waits. The guard says
    "2 of 3 ranks arrived after 20 s; rank 2 is missing", or that ranks were told different sizes of the world.

    ## Why it happens
    WORLD_SIZE, `num_processes` or TF_CONFIG count more ranks than are started, or differ between ranks; or the missing rank failed before
    it came so far (then its own failure is the root cause).

    ## How we know
    Every rank leaves a note on its host when it enters its framework's rendezvous. Who is missing is said only where all ranks
    are meant to be on this host.

    ## What to do
    Start as many ranks as the variables say, and give all of them the same number.

    ## When this is wrong
    A rank that is only slow to start arrives after the note was written; then the world forms and nothing is reported.
    """
    waiting = still_waiting(seen)
    differ = [e for e in waiting if e.fact.sizes]
    if differ:
        fact = differ[0].fact
        others = listing(f"rank {rank} {size}" for rank, size in fact.sizes[:3])
        yield Found(
            title=f"the ranks were told different sizes of the world: rank {fact.index} {fact.size}, {others}",
            because="they wait for each other at the same place, and cannot all be right",
            evidence=tuple(differ[:4]),
            ranks=tuple(
                sorted(
                    {rank for e in differ for rank, _ in e.fact.sizes}
                    | {e.fact.index for e in differ if e.fact.index is not None}
                )
            ),
            standing=Standing.MECHANISM,
            fixes=_FIXES.get(fact.framework, ()),
        )
        return
    short = [e for e in waiting if e.fact.here and e.fact.missing and not (e.fact.twice or e.fact.elsewhere)]
    if not short:
        return
    last = max(short, key=lambda e: e.fact.seconds)
    fact = last.fact
    started = ranks_started(seen)
    if started is not None and fact.size <= started:
        return  # it was started, and hangs or is slow: another rule tells
    yield Found(
        title=f"{len(fact.arrived)} of {fact.size} ranks arrived at {fact.at}; {say_ranks(fact.missing)} never did, for {duration(fact.seconds)}",
        because="no such process came on this host, where all of them are meant to be"
        + ("" if not fact.starting else ", though one was starting"),
        evidence=tuple(short[-4:]),
        ranks=fact.missing[:8],
        confidence=Confidence.SUPPORTED,
        fixes=_FIXES.get(fact.framework, ()),
    )


_FIXES = {
    "torch": (Fix(do="start as many ranks as WORLD_SIZE says", command="keepstep run -n N -- python train.py"),),
    "jax": (Fix(do="start as many processes as num_processes says", command="keepstep run -n N -- python train.py"),),
    "tensorflow": (
        Fix(
            do="start a process for every worker in TF_CONFIG, and give all the same cluster",
            command="keepstep check config",
        ),
    ),
}
