# SPDX-License-Identifier: Apache-2.0
"""RES106: the ranks use more threads than there are cores."""

from __future__ import annotations

from keepstep.model.facts import CoresSeen, ScriptCalls
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule


@rule(id="RES106", cause=Cause.RESOURCE_CONTENTION, needs=(CoresSeen,))
def cores_oversubscribed(seen: EvidenceSet) -> Findings:
    """The ranks of a host use more threads or loader workers than it has cores.

    ## What it looks like
    OMP_NUM_THREADS times the ranks of a host, or the loader workers of all ranks, exceed twice its cores. Every step
    takes longer, and one rank is always late.

    ## Why it happens
    The settings were made for a larger host, or a control group gives fewer cores than the host has.

    ## How we know
    The variable, the script's num_workers, the launcher's number of ranks, and the cores that this process may use.

    ## What to do
    Divide the cores among the ranks.

    ## When this is wrong
    Most threads sleep most of the time.
    """
    for each in seen.all(CoresSeen)[:1]:
        fact = each.fact
        threads = fact.ranks_here * (fact.threads_each or 1)
        workers = next((e for e in seen.all(ScriptCalls) if e.fact.loader_workers), None)
        loading = fact.ranks_here * (workers.fact.loader_workers or 0) if workers else 0
        share = max(1, fact.cores // fact.ranks_here)
        if fact.threads_each and threads > 2 * fact.cores:
            yield Found(
                title=(
                    f"{threads} threads for {fact.cores} cores: "
                    f"OMP_NUM_THREADS={fact.threads_each} in {fact.ranks_here} ranks"
                ),
                because="the ranks compete for the cores",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="divide the cores among the ranks", command=f"export OMP_NUM_THREADS={share}"),),
            )
        if workers and loading > 2 * fact.cores:
            yield Found(
                title=(
                    f"{loading} loader workers for {fact.cores} cores: "
                    f"num_workers={workers.fact.loader_workers} in {fact.ranks_here} ranks"
                ),
                because="the workers compete for the cores with each other and with the ranks",
                evidence=(workers, each),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do=f"set num_workers to {share} or less"),),
            )
