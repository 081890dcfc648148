# SPDX-License-Identifier: Apache-2.0
"""RES101: a host has little memory left."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.host import MemorySeen
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import size


@rule(id="RES101", cause=Cause.RESOURCE_HOST_OOM_KILLED, needs=(MemorySeen,))
def memory_tight(seen: EvidenceSet) -> Iterator[Found]:
    """A host has little memory left for the run.

    ## What it looks like
    Less than a tenth of the host's memory, or of the control group's limit, is free before the run starts.

    ## Why it happens
    Another job, a left-over process, or a limit in the pod's or job's request.

    ## How we know
    The kernel's own figures, and the control group's limit where it is lower.

    ## What to do
    End what holds the memory, or ask for more.

    ## When this is wrong
    The run needs less than what is left.
    """
    for each in seen.all(MemorySeen):
        fact = each.fact
        room = fact.limit if fact.limit is not None else fact.total
        free = min(fact.available, fact.limit - (fact.used_of_limit or 0)) if fact.limit is not None else fact.available
        if free * 10 < room or free < 1 << 30:
            limited = " of the control group's limit" if fact.limit is not None else ""
            yield Found(
                title=f"only {size(free)} of {size(room)} memory is free{limited} on {each.origin.source.rpartition(' on ')[2]}",
                because="a run that grows beyond it is killed by the kernel",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(
                    Fix(do="see who holds it", command="ps aux --sort=-rss | head"),
                    Fix(do="or ask the scheduler for more", command="#SBATCH --mem=64G"),
                ),
            )
