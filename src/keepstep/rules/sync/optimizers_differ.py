# SPDX-License-Identifier: Apache-2.0
"""SYN203: ranks train with different optimizer settings."""

from __future__ import annotations

from keepstep.rules.api import Cause, ContractBroken, ContractStated, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.stated_differences import broken_contracts
from keepstep.rules.sync._waiting import differing
from keepstep.signals.contracts import Subject


@rule(id="SYN203", cause=Cause.SYNC_REPLICA_DESYNC, needs=(ContractBroken, ContractStated), severity=Severity.WARNING)
def optimizers_differ(seen: EvidenceSet) -> Findings:
    """Ranks train with different optimizers or settings, so their weights drift apart.

    ## What it looks like
    Nothing fails. The replicas differ a little more with each step; a checkpoint depends on which rank wrote it.

    ## Why it happens
    The learning rate or another setting depends on the rank or on a file that one host lacks.

    ## How we know
    Every rank states its optimizer's settings at the first step.

    ## What to do
    Use the same settings on every rank.

    ## When this is wrong
    Optimizers that are sharded by design (ZeRO) hold different parameters; we do not compare those.
    """
    for each in broken_contracts(seen, Subject.OPTIMIZER):
        yield Found(
            title=f"ranks train with different optimizer settings: {each.words}",
            because=f"each rank stated its settings at its first step; {differing(each.odd)}",
            evidence=each.evidence,
            ranks=each.odd,
            fixes=(Fix(do="use the same optimizer settings on every rank"),),
        )
        return
