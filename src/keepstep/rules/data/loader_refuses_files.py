# SPDX-License-Identifier: Apache-2.0
"""DAT060: a loader would refuse to divide the files."""

from __future__ import annotations

from keepstep.model.facts import LoaderRefuses
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Safety, count, rule
from keepstep.rules.api import ranks as say_ranks


@rule(id="DAT060", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(LoaderRefuses,))
def loader_refuses_files(seen: EvidenceSet) -> Findings:
    """The loader would stop with an error, because there are too few files for the ranks and their workers.

    ## What it looks like
    `Could not apply FILE based sharding: the dataset only has 1 file(s)`, or `No samples found in dataset; perhaps you
    have fewer shards than workers`, on the ranks that notice it. The others wait for these ranks.

    ## Why it happens
    Files are given out whole, and there are fewer of them than readers.

    ## How we know
    The files were counted and divided in the way that the loader divides them.

    ## What to do
    Write more, smaller files, use fewer workers, or divide by records instead of files.

    ## When this is wrong
    When the run reads other files than those that were checked.
    """
    for each in seen.all(LoaderRefuses):
        fact = each.fact
        yield Found(
            title=f"{count(fact.files, 'file')} cannot be divided among {count(fact.readers, 'reader')}: {fact.policy}"
            f" would fail on {say_ranks(fact.ranks)}",
            because=f"the loader gives out whole files, and stops with `{fact.message}`",
            evidence=(each,),
            ranks=fact.ranks,
            fixes=(
                Fix(do=f"write the data as at least {fact.readers} files"),
                Fix(
                    do="or divide by records; with tf.data",
                    code="options.experimental_distribute.auto_shard_policy = "
                    "tf.data.experimental.AutoShardPolicy.DATA",
                    safety=Safety.CHANGES_RESULTS,
                ),
            ),
        )
