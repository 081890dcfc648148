# SPDX-License-Identifier: Apache-2.0
"""DAT075: ranks trained on the same batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.pipeline import BatchFed
from keepstep.core.finding import Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import count
from keepstep.core.wording import ranks as say_ranks

ENOUGH = 2
"""Batches that must be the same, and different from each other: constant data says nothing."""


@rule(id="DAT075", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(BatchFed,))
def fed_the_same_batches(seen: EvidenceSet) -> Iterator[Found]:
    """Ranks were fed the same records, so they computed the same gradients.

    ## What it looks like
    Nothing fails. The loss of these ranks is the same in every step, and more ranks do not make an epoch shorter.

    ## Why it happens
    The loader has no sampler that knows the rank, every rank thinks it is rank 0, or each rank makes its data from the
    same seed.

    ## How we know
    The guard hashed the first batches of each rank of a model that is wrapped over all ranks, and the hashes are the
    same.

    ## What to do
    Divide the data by rank.

    ## When this is wrong
    When ranks share data by design. The guard therefore compares only ranks that average their gradients. A speed test
    on made-up data is also meant to do this.
    """
    fed: dict[int, list[Evidence[BatchFed]]] = defaultdict(list)
    for each in seen.all(BatchFed):
        if each.who is not None and each.fact.epoch == 1:
            fed[each.who].append(each)
    alike: dict[tuple[tuple[int, str], ...], list[int]] = defaultdict(list)
    most = min((len({e.fact.batch for e in own}) for own in fed.values()), default=0)
    for rank, own in fed.items():
        first = tuple(sorted({e.fact.batch: e.fact.digest for e in own}.items())[:most])
        if len({digest for _, digest in first}) >= ENOUGH:
            alike[first].append(rank)
    same = sorted((sorted(ranks) for ranks in alike.values() if len(ranks) > 1), key=len, reverse=True)
    if not same:
        return
    ranks = same[0]
    yield Found(
        title=f"{say_ranks(ranks)} were fed the same records",
        because=f"the first {count(most, 'batch', 'batches')} of these ranks have the same content",
        evidence=tuple(fed[rank][0] for rank in ranks[:4]),
        ranks=tuple(ranks),
        severity=Severity.WARNING,
        fixes=(
            Fix(
                do="give the loader a sampler that divides the records",
                command="DataLoader(data, batch_size=n, sampler=keepstep.shard(data, batch=n))",
            ),
        ),
    )
