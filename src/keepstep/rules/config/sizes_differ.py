# SPDX-License-Identifier: Apache-2.0
"""CFG112: the processes, or the launchers, disagree on the number of ranks."""

from __future__ import annotations

from keepstep.rules.api import Cause, ClusterSeen, EvidenceSet, Findings, Fix, Found, listing, rule


@rule(id="CFG112", cause=Cause.CONFIG_WORLD_SIZE_MISMATCH, needs=(ClusterSeen,))
def sizes_differ(seen: EvidenceSet) -> Findings:
    """The processes, or the launcher and the scheduler, disagree on how many ranks there are.

    ## What it looks like
    WORLD_SIZE is 8 in one process and 4 in another, or WORLD_SIZE is 8 and Slurm started 4 tasks. The job waits for the
    ranks that were not started until its time-out.

    ## Why it happens
    The batch script asks for a different number of tasks than the training script expects, or one host has an outdated
    setting.

    ## How we know
    The sizes that the processes have are compared with each other and, where one process is one task, with what the
    scheduler started.

    ## What to do
    Take the size from the scheduler: WORLD_SIZE=$SLURM_NTASKS.

    ## When this is wrong
    Under srun, torchrun starts several ranks in one Slurm task. This rule recognises torchrun's variables and stays
    silent then.
    """
    for said_by in dict.fromkeys(e.fact.said_by for e in seen.all(ClusterSeen)):
        given = tuple(e for e in seen.all(ClusterSeen) if e.fact.said_by == said_by)
        sizes = sorted({e.fact.size for e in given})
        if len(sizes) > 1 and not all(e.fact.members for e in given):
            yield Found(
                title=f"the processes have different world sizes: {listing(map(str, sizes))} ({said_by})",
                because="they wait for ranks that were never started, or turn away ranks that arrive",
                evidence=given,
                fixes=(Fix(do="set the scheduler's size everywhere", command="export WORLD_SIZE=$SLURM_NTASKS"),),
            )
    slurm = [e for e in seen.all(ClusterSeen) if e.fact.said_by == "Slurm"]
    torch = [e for e in seen.all(ClusterSeen) if e.fact.said_by == "torchrun" and e.fact.local_size is None]
    if slurm and torch and slurm[0].fact.size != torch[0].fact.size:
        yield Found(
            title=f"WORLD_SIZE is {torch[0].fact.size}, but Slurm started {slurm[0].fact.size} tasks",
            because="each Slurm task is one rank here, so the numbers must be equal",
            evidence=(torch[0], slurm[0]),
            fixes=(
                Fix(do="take size and rank from Slurm", command="export WORLD_SIZE=$SLURM_NTASKS RANK=$SLURM_PROCID"),
            ),
        )
