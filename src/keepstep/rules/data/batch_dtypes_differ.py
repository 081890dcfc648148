# SPDX-License-Identifier: Apache-2.0
"""DAT202: ranks feed batches of different dtypes."""

from __future__ import annotations

from keepstep.rules.api import Cause, ContractBroken, ContractStated, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.stated_differences import broken_contracts
from keepstep.rules.data.inputs_differ import only_dtype
from keepstep.signals.contracts import Subject


@rule(
    id="DAT202",
    cause=Cause.DATA_DTYPE_MISMATCH,
    needs=(ContractBroken, ContractStated),
    explains=(Cause.SYNC_COLLECTIVE_MISMATCH, Cause.USER_CODE_EXCEPTION, Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK),
)
def batch_dtypes_differ(seen: EvidenceSet) -> Findings:
    """Ranks feed batches of different dtypes into the same step.

    ## What it looks like
    One rank has a float64 batch: it fails, issues different collectives, or takes twice as long per step.

    ## Why it happens
    NumPy defaults to float64, or another program wrote one of the shards.

    ## How we know
    Every rank states the dtypes that it feeds, and they differ between ranks.

    ## What to do
    Cast the data where it is read.

    ## When this is wrong
    The ranks have different roles (a teacher, a student) in one job.
    """
    for each in broken_contracts(seen, Subject.BATCH):
        typed = [d for d in each.differences if only_dtype(d.values[0][0], d.values[1][0])]
        if not typed:
            continue
        yield Found(
            title=f"ranks feed batches of different dtypes: {typed[0]}",
            because=f"each rank stated what it feeds; these differ from the rest: {each.who}",
            evidence=each.evidence,
            ranks=each.odd,
            severity=None if seen.broken else Severity.WARNING,
            fixes=(Fix(do="cast the data where it is read", code="array.astype(numpy.float32)"),),
        )
        return
