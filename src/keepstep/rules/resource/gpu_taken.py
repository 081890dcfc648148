# SPDX-License-Identifier: Apache-2.0
"""RES107: a GPU's memory is already in use."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, GpuSeen, Severity, rule, size
from keepstep.rules.asking.process_endings import host_of


@rule(id="RES107", cause=Cause.RESOURCE_GPU_OOM, needs=(GpuSeen,))
def gpu_taken(seen: EvidenceSet) -> Findings:
    """Another process already uses a GPU's memory.

    ## What it looks like
    Before the run starts, more than a tenth of a GPU's memory is in use.

    ## Why it happens
    A leftover process of an earlier run, a notebook, another user.

    ## How we know
    The driver's own figures for the device's memory, and for the processes that hold it.

    ## What to do
    End the leftover process.

    ## When this is wrong
    The device is shared on purpose.
    """
    for each in seen.all(GpuSeen):
        fact, where = each.fact, host_of(each)
        if fact.used * 10 > fact.total:
            who = f" by {', '.join(fact.others[:3])}" if fact.others else ""
            yield Found(
                title=f"{size(fact.used)} of {size(fact.total)} of GPU {fact.index} on {where} is in use{who}",
                because="only the rest is left for the run",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.ESTABLISHED,
                fixes=(
                    Fix(
                        do="check which processes hold it",
                        command="nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv",
                    ),
                ),
            )
