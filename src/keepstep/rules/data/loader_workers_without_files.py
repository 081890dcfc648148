# SPDX-License-Identifier: Apache-2.0
"""DAT066: workers of loaders would have nothing to read."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, WorkersIdle, count, rule


@rule(id="DAT066", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(WorkersIdle,))
def loader_workers_without_files(seen: EvidenceSet) -> Findings:
    """Worker processes of loaders would have nothing to read.

    ## What it looks like
    Nothing fails, but the input is slower than the number of workers suggests, and idle workers take memory.

    ## Why it happens
    Workers divide whole files, and there are fewer files than workers.

    ## How we know
    The files were counted and divided in the way that the loader divides them.

    ## What to do
    Write more, smaller files, or use fewer workers.

    ## When this is wrong
    When reading takes little time compared to a step.
    """
    for each in seen.all(WorkersIdle):
        fact = each.fact
        few = f": there are only {count(fact.files, 'file')}" if fact.files is not None else ""
        yield Found(
            title=f"{fact.idle:,} of {count(fact.workers, 'loader worker')} would have nothing to read ({fact.policy})",
            because=f"they divide what a rank has among themselves, and it is too little{few}",
            evidence=(each,),
            severity=Severity.NOTE,
            fixes=(Fix(do=f"use fewer workers, or write the data as at least {fact.workers} files"),),
        )
