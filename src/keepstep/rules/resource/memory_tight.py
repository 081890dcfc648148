# SPDX-License-Identifier: Apache-2.0
"""RES101: a host has little memory left."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, MemorySeen, Severity, rule, size
from keepstep.rules.asking.process_endings import host_of


@rule(id="RES101", cause=Cause.RESOURCE_HOST_OOM_KILLED, needs=(MemorySeen,))
def memory_tight(seen: EvidenceSet) -> Findings:
    """A host has little memory left for the run.

    ## What it looks like
    Less than a tenth of the host's memory, or of the control group's limit, is free before the run starts.

    ## Why it happens
    Another job, a leftover process, or a low limit in the pod's or job's request.

    ## How we know
    The kernel's own figures, and the control group's limit if it is lower.

    ## What to do
    End the processes that hold the memory, or request more.

    ## When this is wrong
    The run needs less than that.
    """
    for each in seen.all(MemorySeen):
        fact = each.fact
        room = fact.limit if fact.limit is not None else fact.total
        free = min(fact.available, fact.limit - (fact.used_of_limit or 0)) if fact.limit is not None else fact.available
        if free * 10 < room or free < 1 << 30:
            limited = " of the control group's limit" if fact.limit is not None else ""
            yield Found(
                title=f"only {size(free)} of {size(room)} memory is free{limited} on {host_of(each)}",
                because="the kernel will kill a run that needs more",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(do="check which processes hold it", command="ps aux --sort=-rss | head"),
                    Fix(do="or request more from the scheduler", code="#SBATCH --mem=64G"),
                ),
            )
