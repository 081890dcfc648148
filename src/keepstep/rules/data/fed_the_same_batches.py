# SPDX-License-Identifier: Apache-2.0
"""DAT075: ranks trained on the same batches."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from keepstep.model.facts import BatchFed, RanksFedAlike
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, Severity, count, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.signals.same_batches import FedAlikeRanks, fed_alike


@rule(id="DAT075", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(BatchFed, RanksFedAlike))
def fed_the_same_batches(seen: EvidenceSet) -> Findings:
    """Ranks were fed the same records, so they computed the same gradients.

    ## What it looks like
    Nothing fails. The loss of these ranks is the same in every step, and more ranks do not make an epoch shorter.

    ## Why it happens
    The loader has no sampler that knows the rank, every rank thinks it is rank 0, or each rank makes its data from the
    same seed.

    ## How we know
    The guard hashed a few batches of each rank, only where all ranks average their gradients, and the hashes are the
    same at the same places. The guards compare them while the training runs.

    ## What to do
    Divide the data by rank.

    ## When this is wrong
    When ranks share data by design: a speed test on made-up data, or a script that loads the same batch everywhere and
    lets each rank take its own part of it. With tensor, pipeline or context parallelism nothing is compared.
    """
    fed: dict[int, list[Evidence[BatchFed]]] = defaultdict(list)
    for each in seen.all(BatchFed):
        if each.who is not None:
            fed[each.who].append(each)
    found = fed_alike({rank: {_name(each.fact): each.fact.digest for each in own} for rank, own in fed.items()})
    told = [FedAlikeRanks(each.fact.ranks, each.fact.batches) for each in seen.all(RanksFedAlike)]
    alike = max((*found, *told), key=lambda each: len(each.ranks), default=None)
    if alike is None:
        return
    evidence: list[Evidence[Any]] = [each for each in seen.all(RanksFedAlike) if each.fact.ranks == alike.ranks][:1]
    evidence += [fed[rank][0] for rank in alike.ranks[:4] if rank in fed]
    many = count(len(alike.batches), "batch", "batches")
    first = alike.batches[0].startswith("batch ")
    yield Found(
        title=f"{say_ranks(alike.ranks)} were fed the same records",
        because=f"{'the first ' if first else ''}{many} of these ranks have the same content"
        + ("" if first else f", from {alike.batches[0]} on"),
        evidence=tuple(evidence),
        ranks=alike.ranks,
        severity=Severity.WARNING,
        fixes=(
            Fix(
                do="give the loader a sampler that divides the records",
                code="DataLoader(data, batch_size=n, sampler=keepstep.shard(data, batch=n))",
            ),
        ),
    )


def _name(fact: BatchFed) -> str:
    return f"batch {fact.batch}" if fact.epoch == 1 else f"epoch {fact.epoch}"
