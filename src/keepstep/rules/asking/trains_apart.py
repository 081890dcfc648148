# SPDX-License-Identifier: Apache-2.0
"""Which ranks of one world exchange no gradients, by the last report of their guards."""

from __future__ import annotations

from keepstep.rules.api import Evidence, EvidenceSet, NeverExchanged, everyone


def trains_apart(seen: EvidenceSet) -> tuple[tuple[int, ...], tuple[Evidence[NeverExchanged], ...]]:
    """Those ranks and the evidence, without reports that were withdrawn later."""
    last = {e.who: e for e in seen.all(NeverExchanged)}
    apart = tuple(e for e in last.values() if not e.fact.over)
    if apart and apart[0].fact.exchanged is not None:  # rank 0 asked all ranks first, or each rank reports it
        if all(e.fact.own for e in apart) and len(apart) < apart[0].fact.world:
            return (), ()
        return tuple(everyone(apart[0].fact.world)), apart
    return tuple(sorted(e.who for e in apart if e.who is not None)), apart
