# SPDX-License-Identifier: Apache-2.0
"""RES009: the run waited for nodes or devices that were in use."""

from __future__ import annotations

from keepstep.model.facts import NotScheduled, StepSeen
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule, shorten

TABLE = 40
"""The lines of a table of pending trials; a log may end in one."""


@rule(
    id="RES009",
    cause=Cause.RESOURCE_CONTENTION,
    needs=(NotScheduled,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def not_scheduled_yet(seen: EvidenceSet) -> Findings:
    """The run waited for nodes or devices that it never got.

    ## What it looks like
    Ray: `The worker group startup timed out after 30.0 seconds waiting for 8 workers`, `cannot be scheduled right
    now`. Kubernetes: `0/4 nodes are available: 4 Insufficient nvidia.com/gpu`.

    ## Why it happens
    Other jobs, or leftover processes of an earlier one, hold the devices; or the request is larger than the cluster.

    ## How we know
    The scheduler says that it cannot place the workers now, and no step was ever trained. It does not say whether the
    devices are in use or do not exist.

    ## What to do
    Check which jobs hold the devices, end leftover processes, or request less.

    ## When this is wrong
    The log ends while the autoscaler is still adding nodes.
    """
    waiting = tuple(e for e in seen.all(NotScheduled) if not e.fact.never)
    failed = any("FailedScheduling" in e.quote or "Unschedulable" in e.quote for e in waiting)
    failed = failed or any(
        "all PENDING" in (e.fact.asked or "") and seen.is_last_word(e, within=TABLE) for e in waiting
    )
    if not waiting or seen.all(StepSeen) or not (seen.broken or failed or len(waiting) > 1):
        return
    first = next((e.fact for e in waiting if e.fact.asked), waiting[0].fact)
    asked = f" ({shorten(first.asked, 60)})" if first.asked else ""
    yield Found(
        title=f"the run never got its workers from {first.by}{asked}",
        because=f"{first.by} could not place the workers, and nothing was trained",
        evidence=waiting,
        fixes=(
            Fix(do="check which jobs hold the devices", command="ray status; kubectl get pods -A; squeue"),
            Fix(do="request no more workers, GPUs and CPUs than the cluster has"),
        ),
    )
