# SPDX-License-Identifier: Apache-2.0
"""Which ranks of one world exchange no gradient, by what their guards said last."""

from __future__ import annotations

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.guard import NeverExchanged
from keepstep.core.identity import everyone


def trains_apart(seen: EvidenceSet) -> tuple[tuple[int, ...], tuple[Evidence[NeverExchanged], ...]]:
    """Those ranks, and what shows it; what was taken back since is left out."""
    last = {e.who: e for e in seen.all(NeverExchanged)}
    apart = tuple(e for e in last.values() if not e.fact.over)
    if apart and apart[0].fact.exchanged is not None:  # rank 0 asked all of them before it said so, or each says so
        if all(e.fact.own for e in apart) and len(apart) < apart[0].fact.world:
            return (), ()
        return tuple(everyone(apart[0].fact.world)), apart
    return tuple(sorted(e.who for e in apart if e.who is not None)), apart
