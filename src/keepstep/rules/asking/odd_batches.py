# SPDX-License-Identifier: Apache-2.0
"""Batches that broke their contract, by what was wrong with them."""

from __future__ import annotations

from keepstep.rules.api import BatchOdd, EvidenceSet, Findings, Fix, Found, Severity
from keepstep.rules.api import ranks as say_ranks


def odd_batches(seen: EvidenceSet, *kinds: str, fix: Fix) -> Findings:
    """One finding for all such batches; fatal if the run then failed."""
    odd = [e for e in seen.all(BatchOdd) if e.fact.kind in kinds]
    if not odd:
        return
    fact = odd[0].fact
    ranks = tuple(dict.fromkeys(e.who for e in odd if e.who is not None))
    wanted = "the contract requires" if fact.declared else "earlier batches had"
    part = fact.part.removeprefix("batch") or "content"
    yield Found(
        title=f"{say_ranks(ranks) or 'a rank'} got a batch whose {part} has {fact.seen}; {wanted} {fact.wanted}",
        because=f"the guard checked the batch right after step {fact.step}, before it was used",
        evidence=tuple(odd[:8]),
        ranks=ranks,
        severity=Severity.FATAL if seen.broken else Severity.WARNING,
        fixes=(fix, Fix(do="stop before such a step next time", command="KEEPSTEP=strict python train.py")),
    )
