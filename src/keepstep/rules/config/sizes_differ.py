# SPDX-License-Identifier: Apache-2.0
"""CFG112: the processes, or the launchers, count differently."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import ClusterSeen
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import listing


@rule(id="CFG112", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(ClusterSeen,))
def sizes_differ(seen: EvidenceSet) -> Iterator[Found]:
    """The processes, or the launcher and the scheduler, disagree on how many ranks there are.

    ## What it looks like
    WORLD_SIZE is 8 in one process and 4 in another, or WORLD_SIZE is 8 and Slurm started 4 tasks. The ranks
    that were not started are waited for until the time-out.

    ## Why it happens
    The batch script asks for another number of tasks than the script is told; one host has an old setting.

    ## How we know
    What every process was told is compared, and, where one process is one task, with what the scheduler
    started.

    ## What to do
    Take the size from the scheduler: WORLD_SIZE=$SLURM_NTASKS.

    ## When this is wrong
    torchrun under srun: one Slurm task starts several ranks; this rule knows torchrun's mark and keeps quiet.
    """
    for said_by in dict.fromkeys(e.fact.said_by for e in seen.all(ClusterSeen)):
        told = tuple(e for e in seen.all(ClusterSeen) if e.fact.said_by == said_by)
        sizes = sorted({e.fact.size for e in told})
        if len(sizes) > 1 and not all(e.fact.members for e in told):
            yield Found(
                title=f"the processes were told different world sizes: {listing([str(size) for size in sizes])} ({said_by})",
                because="they wait for ranks that nobody plays, or turn away ranks that come",
                evidence=told,
                fixes=(Fix(do="set one size everywhere, the scheduler's", command="export WORLD_SIZE=$SLURM_NTASKS"),),
            )
    slurm = [e for e in seen.all(ClusterSeen) if e.fact.said_by == "Slurm"]
    torch = [e for e in seen.all(ClusterSeen) if e.fact.said_by == "torchrun" and e.fact.local_size is None]
    if slurm and torch and slurm[0].fact.size != torch[0].fact.size:
        yield Found(
            title=f"WORLD_SIZE is {torch[0].fact.size}, but Slurm started {slurm[0].fact.size} tasks",
            because="each Slurm task is one rank here, so the numbers must be equal",
            evidence=(torch[0], slurm[0]),
            fixes=(Fix(do="take it from Slurm", command="export WORLD_SIZE=$SLURM_NTASKS RANK=$SLURM_PROCID"),),
        )
