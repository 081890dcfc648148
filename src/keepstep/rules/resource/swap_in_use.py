# SPDX-License-Identifier: Apache-2.0
"""RES102: a host is swapping."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, MemorySeen, Severity, rule, size
from keepstep.rules.asking.process_endings import host_of


@rule(id="RES102", cause=Cause.RESOURCE_CONTENTION, needs=(MemorySeen,))
def swap_in_use(seen: EvidenceSet) -> Findings:
    """A host has swapped memory out to disk.

    ## What it looks like
    Much swap is in use before the run starts: the rank on this host will be slow.

    ## Why it happens
    Processes use more memory than the host has.

    ## How we know
    The kernel's figures.

    ## What to do
    End the processes that hold the memory.

    ## When this is wrong
    The swapped memory is never needed again.
    """
    for each in seen.all(MemorySeen):
        fact = each.fact
        if fact.swap_used > fact.total // 20 and fact.swap_used > 1 << 30:
            yield Found(
                title=f"{size(fact.swap_used)} of memory is swapped out on {host_of(each)}",
                because="swapped memory comes back slowly, and all ranks wait for the slowest",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(
                        do="check which processes were swapped out",
                        command="grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail",
                    ),
                ),
            )
