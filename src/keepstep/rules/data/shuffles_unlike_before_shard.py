# SPDX-License-Identifier: Apache-2.0
"""DAT070: each rank shuffles in its own order and then takes its part."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, PipelineSeen, Severity, rule
from keepstep.rules.asking.pipeline_stages import NO_SEED, pairs


@rule(id="DAT070", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(PipelineSeen,))
def shuffles_unlike_before_shard(seen: EvidenceSet) -> Findings:
    """Each rank shuffles in its own order before it takes its part, so parts overlap and records are left out.

    ## What it looks like
    Nothing fails. Some records are fed to several ranks in an epoch, and others to none.

    ## Why it happens
    `shard()` takes every N-th element of what it gets. If each rank shuffled differently before, these are not parts of
    one order. `tf.data.Dataset.list_files` shuffles by default.

    ## How we know
    The graph of the pipeline has a shuffle without a seed before its shard, or the seeds of the ranks differ.

    ## What to do
    Shard first and shuffle then, or give the shuffle the same seed on every rank.

    ## When this is wrong
    When `tf.random.set_seed` gives all ranks the same seed; then the graph shows that seed, and nothing is reported.
    """
    unseeded = tuple(
        e for e in seen.all(PipelineSeen) if any(NO_SEED in how for how, _ in pairs(e.fact, "shuffle", "shard"))
    )
    seeds = {e.fact.of_rank: tuple(how for how, _ in pairs(e.fact, "shuffle", "shard")) for e in seen.all(PipelineSeen)}
    unlike = len(seeds) > 1 and None not in seeds and len(set(seeds.values())) > 1
    if not unseeded and not unlike:
        return
    yield Found(
        title="each rank shuffles in its own order before it takes its part of the data",
        because="the shuffle before the shard has no seed"
        if unseeded
        else "the seeds of the shuffles before it differ",
        evidence=unseeded[:1] or seen.all(PipelineSeen)[:2],
        severity=Severity.WARNING,
        fixes=(
            Fix(do="shard before shuffling", code="dataset.shard(ranks, rank).shuffle(buffer)"),
            Fix(do="or use the same seed on every rank", code="dataset.shuffle(buffer, seed=1).shard(ranks, rank)"),
            Fix(do="with list_files, sort the names", code="tf.data.Dataset.list_files(pattern, shuffle=False)"),
        ),
    )
