# SPDX-License-Identifier: Apache-2.0
"""How the report knows the ranks of a finding, in one line each."""

from __future__ import annotations

from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.rank_places import RankKnownBy
from keepstep.model.finding import Finding

FEW = 2


def how_known(seen: EvidenceSet, finding: Finding) -> tuple[str, ...]:
    """How each of its ranks is known; without a rank, the node and the number there of the process that printed it."""
    notes = seen.all(RankKnownBy)
    if not finding.ranks:
        places = {(e.origin.source, e.origin.stream) for e in finding.evidence}
        here = [e for e in notes if e.fact.rank is None and (e.origin.source, e.origin.stream) in places]
        said = dict.fromkeys(e.fact.how for e in here)
        return tuple(f"its rank is not known: {how}" for how in said) if len(said) == 1 else ()
    if len(finding.ranks) > FEW:
        return ()
    how = {e.fact.rank: e.fact.how for e in reversed(notes)}
    return tuple(f"rank {rank}: {how[rank]}" for rank in finding.ranks if rank in how)
