# SPDX-License-Identifier: Apache-2.0
"""CFG202: ranks waited for others that never arrived."""

from __future__ import annotations

from keepstep.model.facts import RanksArriving
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, duration, listing, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.waits_at_start import ranks_started, still_waiting


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
def ranks_missing(seen: EvidenceSet) -> Findings:
    """Ranks waited for others that never arrived: fewer ranks were started than they expected.

    ## What it looks like
    For minutes, nothing: `init_process_group`, `jax.distributed.initialize` or a MultiWorkerMirroredStrategy waits. The
    guard says "2 of 3 ranks arrived after 20 s; rank 2 is missing", or that the ranks have different world sizes.

    ## Why it happens
    WORLD_SIZE, `num_processes` or TF_CONFIG counts more ranks than were started, or differs between ranks. Or the
    missing rank failed earlier (then its own failure is the root cause).

    ## How we know
    Every rank leaves a note on its host when it enters its framework's rendezvous. A rank is called missing only where
    all ranks should be on this host.

    ## What to do
    Start as many ranks as the variables say, and give all of them the same number.

    ## When this is wrong
    A rank that is only slow to start arrives after the note was written. Then the world forms and nothing is reported.
    """
    waiting = still_waiting(seen)
    differ = [e for e in waiting if e.fact.sizes]
    if differ:
        fact = differ[0].fact
        others = listing(f"rank {rank} {size}" for rank, size in fact.sizes[:3])
        yield Found(
            title=f"the ranks have different world sizes: rank {fact.index} {fact.size}, {others}",
            because="they wait for each other at the same address, and cannot all be right",
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
        return  # it was started, and hangs or is slow: another rule reports that
    yield Found(
        title=f"{len(fact.arrived)} of {fact.size} ranks arrived at {fact.at}; "
        f"{say_ranks(fact.missing)} did not, in {duration(fact.seconds)}",
        because="no such process arrived on this host, where all of them should be"
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
