# SPDX-License-Identifier: Apache-2.0
"""HWD105: GPUs of one kind give different bits for the same computation."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    Confidence,
    DevicesUnlike,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    listing,
    rule,
)
from keepstep.rules.asking.process_endings import host_of


@rule(id="HWD105", cause=Cause.HARDWARE_GPU_FAULT_XID_ECC, needs=(DevicesUnlike,), severity=Severity.WARNING)
def gpus_compute_unlike(seen: EvidenceSet) -> Findings:
    """The same computation gives other bits on one GPU than on others of the same kind.

    ## What it looks like
    Nothing fails. Replicas that should be equal drift apart, or one rank's loss differs for the same batch.

    ## Why it happens
    A faulty device; rarely, another firmware, or a library that chose another kernel on it.

    ## How we know
    `keepstep check gpu` ran the same program on the same inputs on all of them, and compared the bits.

    ## What to do
    Test the odd one for longer, and take it out of service if it stays odd.

    ## When this is wrong
    When the library measures which kernel is fastest and chooses by that. Two devices alone cannot show which is wrong.
    """
    for each in seen.all(DevicesUnlike):
        fact = each.fact
        many = len(fact.odd) > 1
        yield Found(
            title=f"{listing(fact.odd)} on {host_of(each)} give{'' if many else 's'} other bits than "
            + (listing(fact.others) if fact.others else "each other"),
            because=f"they are of one kind ({fact.kind}) and computed the same from the same inputs",
            evidence=(each,),
            confidence=Confidence.SUPPORTED if fact.others else Confidence.HYPOTHESIS,
            fixes=(Fix(do="test for longer", command="keepstep check gpu --minutes 20"),),
        )
