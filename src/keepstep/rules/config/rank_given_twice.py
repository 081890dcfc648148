# SPDX-License-Identifier: Apache-2.0
"""CFG111: two processes were told to be the same rank."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.cluster import ClusterSeen
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule

_FIXES = {
    "TF_CONFIG": (
        Fix(do="set task.index in TF_CONFIG to a number of its own in each process, from 0"),
        Fix(do="or let keepstep write it for each", command="keepstep check config --write --hosts HOST1,HOST2"),
    ),
    "JAX": (Fix(do="give each process an id of its own, e.g. Slurm's", command="export JAX_PROCESS_ID=$SLURM_PROCID"),),
    "torchrun": (Fix(do="give each process a rank of its own, e.g. Slurm's", command="export RANK=$SLURM_PROCID"),),
}


@rule(id="CFG111", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(ClusterSeen,))
def rank_given_twice(seen: EvidenceSet) -> Iterator[Found]:
    """Two processes were told to be the same rank or task.

    ## What it looks like
    Two hosts run with the same task index or RANK. One takes the other's place: `Duplicate task registration`,
    `restarted with a new incarnation`, or a rank that nobody plays is waited for.

    ## Why it happens
    The same file was copied to both hosts, or the index is computed from something that is equal on both.

    ## How we know
    Each process says who it is; two say the same.

    ## What to do
    Give each process an index of its own, from the launcher's variable.

    ## When this is wrong
    Several checks were started on purpose for one rank.
    """
    for group in seen.groups(ClusterSeen, by=lambda fact: (fact.said_by, fact.own, fact.own_rank)):
        who = group[0].fact
        if who.own is not None and len(group) > 1:
            yield Found(
                title=f"{len(group)} processes were told to be {who.own} ({who.said_by})",
                because="each task is played by one process; the second takes the first one's place, and another is never played",
                evidence=group,
                fixes=_FIXES.get(who.said_by, _FIXES["torchrun"]),
            )
