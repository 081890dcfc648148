# SPDX-License-Identifier: Apache-2.0
"""DAT073: ranks are fed the same records."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, RowsCompared, Severity, count, rule

ONE_OF = 20
"""One row of this many must be shared; records may be equal by chance."""


@rule(id="DAT073", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(RowsCompared,))
def records_shared_between_ranks(seen: EvidenceSet) -> Findings:
    """Ranks are fed the same records.

    ## What it looks like
    Nothing fails. More ranks do not make an epoch shorter, and the gradients of the ranks are alike.

    ## Why it happens
    Nothing divides the data, every rank thinks it is rank 0, or the ranks shuffle in different orders before they take
    their parts.

    ## How we know
    The first batches of each rank were read, and the same rows are in those of several ranks.

    ## What to do
    Divide the data by rank.

    ## When this is wrong
    Ranks of one tensor- or pipeline-parallel group must get the same data. Compare only data-parallel ranks.
    """
    shared = tuple(e for e in seen.all(RowsCompared) if e.fact.shared >= max(2, e.fact.rows // ONE_OF))
    if not shared:
        return
    worst = max(shared, key=lambda e: 1000 * e.fact.shared // max(e.fact.rows, 1)).fact
    whole = worst.shared == worst.rows
    order = ", in the same order" if worst.same_order else ""
    yield Found(
        title=f"ranks {worst.first} and {worst.second} are fed the same records"
        + (order if whole else f": {worst.shared} of the {worst.rows} rows in a sample"),
        because=f"{count(len(shared), 'pair')} of ranks have rows in common in their first batches",
        evidence=shared[:3],
        ranks=tuple(sorted({rank for e in shared for rank in (e.fact.first, e.fact.second)})),
        severity=Severity.WARNING,
        fixes=(Fix(do="divide the records", code="shard = keepstep.shard(records, batch=batch)"),),
    )
