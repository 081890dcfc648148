# SPDX-License-Identifier: Apache-2.0
"""HWD102: one host was the first to fail in most of the recent failures."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, TroubleBefore, rule


@rule(id="HWD102", cause=Cause.HARDWARE_MACHINE_FAULT, needs=(TroubleBefore,))
def trouble_before(seen: EvidenceSet) -> Findings:
    """One host was the first to fail in most of the recent failures diagnosed on this machine.

    ## What it looks like
    In recent failures, one host failed first more often than chance would explain.

    ## Why it happens
    Hardware that fails intermittently: memory, a link, a device.

    ## How we know
    Whenever `keepstep why` names the host that failed first, it records the host in a small local file.

    ## What to do
    Exclude the host, and have it checked.

    ## When this is wrong
    The host always runs the same rank, and that rank's work is the cause.
    """
    for each in seen.all(TroubleBefore):
        fact = each.fact
        if fact.began >= 3 and fact.began * 2 > fact.of:
            yield Found(
                title=f"{fact.host} was the first to fail in {fact.began} of the last {fact.of} failures",
                because=f"no other host comes close; the last cause was {fact.last_cause}",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.HYPOTHESIS,
                fixes=(Fix(do="exclude it", code=f"#SBATCH --exclude={fact.host}"),),
            )
