# SPDX-License-Identifier: Apache-2.0
"""CFG008: the run asked its scheduler for more than the cluster has."""

from __future__ import annotations

from keepstep.model.facts import NotScheduled, StepSeen
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.asking.fallout import FALLOUT


@rule(
    id="CFG008",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(NotScheduled,),
    confidence=Confidence.SUPPORTED,
    explains=(*FALLOUT, Cause.RESOURCE_CONTENTION, Cause.UNKNOWN_NOT_ESTABLISHED),
)
def never_scheduled(seen: EvidenceSet) -> Findings:
    """The run asked its scheduler for more devices, tasks or nodes than the cluster has.

    ## What it looks like
    Ray: `No available node types can fulfill resource request`, `Placement group creation timed out`,
    `placement group bundle index 6 is invalid`. Slurm: `Unable to create step for job 12: More processors
    requested than permitted`, `Requested node configuration is not available`.

    ## Why it happens
    The configured number of workers, GPUs per worker or nodes does not fit the allocation, or the program started its
    own small cluster because it was not given the address of the real one.

    ## How we know
    The scheduler says that no node can meet the request, or that the job's allocation cannot. No training step
    followed.

    ## What to do
    Compare the request with what the cluster offers. Ask for less, or add nodes.

    ## When this is wrong
    An autoscaler that is still starting nodes prints the same messages for a while.
    """
    found = tuple(e for e in seen.all(NotScheduled) if e.fact.never)
    if not found or seen.all(StepSeen):
        return
    first = next((e.fact for e in found if e.fact.asked), found[0].fact)
    asked = f": {shorten(first.asked, 60)}" if first.asked else ""
    yield Found(
        title=f"{first.by} could not provide what the run asked for{asked}",
        because=f"{first.by} has no node or allocation that can meet the request",
        evidence=found,
        fixes=(
            Fix(
                do="compare what the cluster has with what the run asks for",
                command="ray status" if first.by == "Ray" else "scontrol show job $SLURM_JOB_ID",
            ),
            Fix(do="ask for no more workers, devices and CPUs per worker than the nodes have"),
        ),
    )
