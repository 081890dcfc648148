# SPDX-License-Identifier: Apache-2.0
"""NUM060: the data is shuffled less than it seems."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, PipelineSeen, Safety, Severity, rule
from keepstep.rules.asking.pipeline_stages import pairs

CACHED = "every epoch has the order of the first one: the data is cached after it is shuffled"
BATCHES = "only the order of whole batches is shuffled, not that of the records"
ORDERS = (
    ("shuffle", "cache", CACHED),
    ("batch", "shuffle", BATCHES),
    ("repeat", "shuffle", "records of different epochs are mixed: the data is repeated before it is shuffled"),
)


@rule(id="NUM060", cause=Cause.NUMERIC_PLATEAU, needs=(PipelineSeen,))
def shuffle_without_effect(seen: EvidenceSet) -> Findings:
    """The pipeline shuffles, but at a place where that has little or no effect.

    ## What it looks like
    Nothing fails. The model sees the same batches in every epoch, or records of different epochs mixed, and learns
    worse than it could.

    ## Why it happens
    `cache()` after `shuffle()` keeps the order of the first epoch for all. `shuffle()` after `batch()` moves whole
    batches around. `repeat()` before `shuffle()` lets a record come twice before another one comes at all.

    ## How we know
    The graph of the pipeline has its stages in this order.

    ## What to do
    Use `cache()`, then `shuffle()`, then `repeat()`, then `batch()`.

    ## When this is wrong
    When it is done on purpose: shuffling batches is cheap, and mixing epochs hides their boundaries.
    """
    for each in seen.all(PipelineSeen):
        found = [said for first, second, said in ORDERS if any(pairs(each.fact, first, second))]
        if found and not (found == [BATCHES] and _shuffles_records(each.fact)):
            yield Found(
                title=found[0],
                because=f"of the order of the stages: {' -> '.join(word for word, _ in each.fact.stages)}",
                evidence=(each,),
                severity=Severity.WARNING if found[0] == CACHED else Severity.NOTE,
                fixes=(
                    Fix(
                        do="put the stages into this order",
                        code="dataset.cache().shuffle(buffer).repeat().batch(n).prefetch(tf.data.AUTOTUNE)",
                        safety=Safety.CHANGES_RESULTS,
                    ),
                ),
            )
            return


def _shuffles_records(seen: PipelineSeen) -> bool:
    return any(pairs(seen, "shuffle", "batch"))
