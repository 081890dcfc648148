# SPDX-License-Identifier: Apache-2.0
"""SLO061: batches are prepared while the devices wait."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, PipelineSeen, Severity, rule
from keepstep.rules.asking.pipeline_stages import has

PREFETCHED_BY = {"tf.data": "dataset.prefetch(tf.data.AUTOTUNE)", "PyTorch": "DataLoader(..., num_workers=2)"}


@rule(id="SLO061", cause=Cause.SLOW_INPUT_BOUND, needs=(PipelineSeen,))
def input_not_prefetched(seen: EvidenceSet) -> Findings:
    """Batches are prepared only when a step asks for them, while the devices wait.

    ## What it looks like
    Each step takes as long as the preparation of its batch and its computation together.

    ## Why it happens
    The pipeline has no `prefetch()`, or the loader no worker processes.

    ## How we know
    No stage of the pipeline prefetches.

    ## What to do
    Prefetch at the end of the pipeline, or read with worker processes.

    ## When this is wrong
    When a strategy adds a prefetch of its own, or the data is in memory and needs no preparation.
    """
    for each in seen.all(PipelineSeen):
        if each.fact.library in PREFETCHED_BY and not has(each.fact, "prefetch"):
            yield Found(
                title=f"the {each.fact.library} pipeline prepares no batch ahead of time",
                because="it has no prefetch" if each.fact.library == "tf.data" else "it has no worker processes",
                evidence=(each,),
                severity=Severity.NOTE,
                fixes=(Fix(do="prepare batches ahead of time", code=PREFETCHED_BY[each.fact.library]),),
            )
            return
