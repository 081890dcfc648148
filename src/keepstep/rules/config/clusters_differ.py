# SPDX-License-Identifier: Apache-2.0
"""CFG110: the processes were told different clusters."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.cluster import ClusterSeen
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import listing
from keepstep.core.wording import ranks as say_ranks


def _shape(each: Evidence[ClusterSeen]) -> tuple[str, ...]:
    return each.fact.members


@rule(id="CFG110", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(ClusterSeen,))
def clusters_differ(seen: EvidenceSet) -> Iterator[Found]:
    """The processes of one job were told different clusters.

    ## What it looks like
    One host lists other addresses, another order or another number of tasks than the rest. Workers wait for
    each other at start, with no word.

    ## Why it happens
    One host has an old file; the list was built from a set without order; one host resolves names when the list
    is made.

    ## How we know
    What every process was told is compared with what most were told.

    ## What to do
    Make the list once, and give the same text to every process; only the task differs.

    ## When this is wrong
    Never: order counts too, because it is the order of ranks.
    """
    for said_by in dict.fromkeys(e.fact.said_by for e in seen.all(ClusterSeen)):
        told = [e for e in seen.all(ClusterSeen) if e.fact.said_by == said_by and e.fact.members]
        maps = [_shape(e) for e in told]
        if len(set(maps)) < 2:
            continue
        usual = max(dict.fromkeys(maps), key=maps.count)
        odd = tuple(e for e, shape in zip(told, maps, strict=True) if shape != usual)
        first = next(e for e, shape in zip(told, maps, strict=True) if shape == usual)
        differs = [b for a, b in zip(usual, _shape(odd[0]), strict=False) if a != b] or ["its number of tasks"]
        yield Found(
            title=f"{say_ranks(tuple(w for e in odd if (w := e.who) is not None)) or 'a process'} was told another cluster than the rest ({said_by})",
            because=f"it has {listing(differs[:3])} where the others have something else, so they wait for each other",
            evidence=(*odd, first),
            ranks=tuple(w for e in odd if (w := e.who) is not None),
            fixes=(
                Fix(
                    do="give every process the same text; compare them",
                    command="keepstep check config --json | grep -A3 TF_CONFIG",
                ),
            ),
        )
