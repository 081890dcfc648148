# SPDX-License-Identifier: Apache-2.0
"""CFG111: two processes were given the same rank."""

from __future__ import annotations

from keepstep.rules.api import Cause, ClusterSeen, EvidenceSet, Findings, Fix, Found, rule

_FIXES = {
    "TF_CONFIG": (
        Fix(do="give each process its own task.index in TF_CONFIG, counting from 0"),
        Fix(
            do="or let keepstep write TF_CONFIG for each process",
            command="keepstep check config --write --hosts HOST1,HOST2",
        ),
    ),
    "JAX": (Fix(do="give each process its own id, e.g. Slurm's", command="export JAX_PROCESS_ID=$SLURM_PROCID"),),
    "torchrun": (Fix(do="give each process its own rank, e.g. Slurm's", command="export RANK=$SLURM_PROCID"),),
}


@rule(id="CFG111", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(ClusterSeen,))
def rank_given_twice(seen: EvidenceSet) -> Findings:
    """Two processes were given the same rank or task.

    ## What it looks like
    Two hosts run with the same task index or RANK. One takes the other's place (`Duplicate task registration`,
    `restarted with a new incarnation`), or all ranks wait for a rank that was never started.

    ## Why it happens
    The same file was copied to both hosts, or the index is computed from something that is the same on both.

    ## How we know
    Each process says which rank it is, and two say the same.

    ## What to do
    Give each process its own index, taken from the launcher's variable.

    ## When this is wrong
    Several checks were started for one rank on purpose.
    """
    for group in seen.groups(ClusterSeen, by=lambda fact: (fact.said_by, fact.own, fact.own_rank)):
        who = group[0].fact
        if who.own is not None and len(group) > 1:
            yield Found(
                title=f"{len(group)} processes are set up as {who.own} ({who.said_by})",
                because="each task must be one process; the second takes the first one's place, and another is missing",
                evidence=group,
                fixes=_FIXES.get(who.said_by, _FIXES["torchrun"]),
            )
