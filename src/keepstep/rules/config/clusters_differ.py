# SPDX-License-Identifier: Apache-2.0
"""CFG110: the processes were given different cluster descriptions."""

from __future__ import annotations

from keepstep.rules.api import Cause, ClusterSeen, EvidenceSet, Findings, Fix, Found, listing, rule
from keepstep.rules.api import ranks as say_ranks


@rule(id="CFG110", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(ClusterSeen,))
def clusters_differ(seen: EvidenceSet) -> Findings:
    """The processes of one job were given different cluster descriptions.

    ## What it looks like
    One host lists different addresses, a different order or a different number of tasks than the rest. Workers wait
    silently for each other at the start.

    ## Why it happens
    One host has an outdated file, the list was built from an unordered set, or one host resolves names when it makes
    the list.

    ## How we know
    The description that each process has is compared with the one that most have.

    ## What to do
    Make the list once, and give every process the same text. Only the task differs.

    ## When this is wrong
    Never. The order matters too, because it is the order of the ranks.
    """
    for said_by in dict.fromkeys(e.fact.said_by for e in seen.all(ClusterSeen)):
        given = [e for e in seen.all(ClusterSeen) if e.fact.said_by == said_by and e.fact.members]
        maps = [e.fact.members for e in given]
        if len(set(maps)) < 2:
            continue
        usual = max(dict.fromkeys(maps), key=maps.count)
        odd = tuple(e for e in given if e.fact.members != usual)
        first = next(e for e in given if e.fact.members == usual)
        ranks = tuple(w for e in odd if (w := e.who) is not None)
        differs = [b for a, b in zip(usual, odd[0].fact.members, strict=False) if a != b] or ["its number of tasks"]
        yield Found(
            title=f"{say_ranks(ranks)} got another cluster description than the rest ({said_by})",
            because=f"it has {listing(differs[:3])} where the others have something else, so they wait for each other",
            evidence=(*odd, first),
            ranks=ranks,
            fixes=(
                Fix(
                    do="compare what the processes have, and give every process the same text",
                    command="keepstep check config --json | grep -A3 TF_CONFIG",
                ),
            ),
        )
