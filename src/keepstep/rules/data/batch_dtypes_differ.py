# SPDX-License-Identifier: Apache-2.0
"""DAT202: ranks feed batches of different types."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.contracts import Subject
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import ContractBroken, ContractStated
from keepstep.core.finding import Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.data.inputs_differ import only_dtype
from keepstep.rules.questions.contracts import broken_contracts


@rule(
    id="DAT202",
    cause=Cause.DATA_DTYPE_MISMATCH,
    needs=(ContractBroken, ContractStated),
    explains=(Cause.SYNC_COLLECTIVE_MISMATCH, Cause.USER_CODE_EXCEPTION, Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK),
)
def batch_dtypes_differ(seen: EvidenceSet) -> Iterator[Found]:
    """Ranks feed batches of different types into the same step.

    ## What it looks like
    A float64 batch on one rank: an error there, other collectives, or a step that is twice as slow.

    ## Why it happens
    NumPy makes float64 unless told otherwise; one shard was written by another program.

    ## How we know
    Every rank states the types of what it feeds; they differ between ranks.

    ## What to do
    Cast where the data is read.

    ## When this is wrong
    Ranks that play different parts (a teacher, a student) in one job.
    """
    for each in broken_contracts(seen, Subject.BATCH):
        typed = [d for d in each.differences if only_dtype(d.values[0][0], d.values[1][0])]
        if not typed:
            continue
        yield Found(
            title=f"ranks feed batches of different types: {typed[0]}",
            because=f"each rank stated what it feeds; out of line: {each.who}",
            evidence=each.evidence,
            ranks=each.odd,
            severity=None if seen.broken else Severity.WARNING,
            fixes=(Fix(do="cast where the data is read", command="array.astype(numpy.float32)"),),
        )
        return
