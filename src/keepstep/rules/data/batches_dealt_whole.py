# SPDX-License-Identifier: Apache-2.0
"""DAT071: whole batches are dealt out to the ranks."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, PipelineSeen, Severity, rule
from keepstep.rules.asking.pipeline_stages import pairs


@rule(id="DAT071", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(PipelineSeen,))
def batches_dealt_whole(seen: EvidenceSet) -> Findings:
    """The pipeline makes batches before it takes this rank's part, so whole batches are dealt out.

    ## What it looks like
    Every rank prepares all batches and throws most of them away. If their number does not divide by the ranks, some
    ranks have one step more than others, and wait in it.

    ## Why it happens
    `shard()` comes after `batch()`.

    ## How we know
    The graph of the pipeline has a batch before its shard.

    ## What to do
    Shard before batching, as early in the pipeline as possible.

    ## When this is wrong
    When the number of batches divides by the ranks and reading is cheap.
    """
    for each in seen.all(PipelineSeen):
        if any(pairs(each.fact, "batch", "shard")):
            yield Found(
                title="the pipeline makes batches before it takes this rank's part of them",
                because="shard() comes after batch(), so ranks may differ by one step, and each prepares all batches",
                evidence=(each,),
                severity=Severity.WARNING,
                fixes=(Fix(do="shard first", code="dataset.shard(ranks, rank).batch(n)"),),
            )
            return
