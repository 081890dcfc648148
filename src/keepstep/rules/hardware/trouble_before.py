# SPDX-License-Identifier: Apache-2.0
"""HWD102: a host began most of the last failures."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.host import TroubleBefore
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule


@rule(id="HWD102", cause=Cause.HARDWARE_MACHINE_FAULT, needs=(TroubleBefore,))
def trouble_before(seen: EvidenceSet) -> Iterator[Found]:
    """A host began most of the last failures that were looked at from here.

    ## What it looks like
    Of the last failures, one host was the first to break more often than chance would have it.

    ## Why it happens
    Hardware that fails now and then: memory, a link, a device.

    ## How we know
    Whenever `keepstep why` names the host that broke first, it is noted in a small local file.

    ## What to do
    Leave the host out, and have it looked at.

    ## When this is wrong
    The host always has the same rank, and the rank is to blame.
    """
    for each in seen.all(TroubleBefore):
        fact = each.fact
        if fact.began >= 3 and fact.began * 2 > fact.of:
            yield Found(
                title=f"{fact.host} began {fact.began} of the last {fact.of} failures",
                because=f"no other host comes near that; the last time it was {fact.last_cause}",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.HYPOTHESIS,
                fixes=(Fix(do="leave it out", command=f"#SBATCH --exclude={fact.host}"),),
            )
