# SPDX-License-Identifier: Apache-2.0
"""CFG008: more was asked of the scheduler than the cluster has."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.config import NotScheduled
from keepstep.core.facts.training import StepSeen
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import shorten
from keepstep.rules.data.lookup import FALLOUT


@rule(
    id="CFG008",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(NotScheduled,),
    confidence=Confidence.SUPPORTED,
    explains=(*FALLOUT, Cause.RESOURCE_CONTENTION, Cause.UNKNOWN_NOT_ESTABLISHED),
)
def never_scheduled(seen: EvidenceSet) -> Iterator[Found]:
    """The run asked its scheduler for more devices, tasks or nodes than there are.

    ## What it looks like
    Ray: `No available node types can fulfill resource request`, `Placement group creation timed out`,
    `placement group bundle index 6 is invalid`. Slurm: `Unable to create step for job 12: More processors
    requested than permitted`, `Requested node configuration is not available`.

    ## Why it happens
    The number of workers, GPUs a worker or nodes in the configuration does not fit the allocation; or the
    program started a small cluster of its own because it was not given the address of the real one.

    ## How we know
    The scheduler says that no node, or the job as it was allocated, can meet the request; no step was trained.

    ## What to do
    Compare what is asked with what the cluster shows, and lower the one or add to the other.

    ## When this is wrong
    An autoscaler that is still starting nodes complains in the same words for a while.
    """
    found = tuple(e for e in seen.all(NotScheduled) if e.fact.never)
    if not found or seen.all(StepSeen):
        return
    first = next((e.fact for e in found if e.fact.asked), found[0].fact)
    asked = f": {shorten(first.asked, 60)}" if first.asked else ""
    yield Found(
        title=f"{first.by} could not give what the run asked for{asked}",
        because=f"{first.by} has no node or allocation that can meet the request",
        evidence=found,
        fixes=(
            Fix(
                do="see what the cluster has and what is asked of it",
                command="ray status" if first.by == "Ray" else "scontrol show job $SLURM_JOB_ID",
            ),
            Fix(do="ask for as many workers, devices and CPUs a worker as the nodes really have"),
        ),
    )
