# SPDX-License-Identifier: Apache-2.0
"""SLO060: the input needs longer for a batch than a step takes."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, InputPace, Severity, count, rule


@rule(id="SLO060", cause=Cause.SLOW_INPUT_BOUND, needs=(InputPace,))
def input_slower_than_steps(seen: EvidenceSet) -> Findings:
    """The input needs longer for a batch than a step takes.

    ## What it looks like
    The devices wait for data in every step. More devices make it worse.

    ## Why it happens
    Too few workers, decoding on the critical path, or storage that is slow or far away.

    ## How we know
    A sample of batches was timed and compared with the time of a step that was given.

    ## What to do
    Give the slowest part more workers, or do its work ahead of time.

    ## When this is wrong
    When the sample was cold: the first reads of a file come from the disk, later ones from memory.
    """
    for each in seen.all(InputPace):
        fact = each.fact
        if fact.step_s is None or fact.per_batch_s <= fact.step_s:
            continue
        part = (
            f"; {fact.limit} takes the most, {fact.limit_s * 1000:.3g} ms per batch"
            if fact.limit is not None and fact.limit_s is not None
            else ""
        )
        workers = f" in {count(fact.workers, 'worker process', 'worker processes')}" if fact.workers else ""
        yield Found(
            title=f"the input takes {fact.per_batch_s * 1000:.3g} ms per batch, a step {fact.step_s * 1000:.3g} ms",
            because=f"over {count(fact.batches, 'batch', 'batches')}{workers}{part}",
            evidence=(each,),
            severity=Severity.WARNING,
            confidence=Confidence.SUPPORTED,
            fixes=(
                Fix(do="read with more workers", code="DataLoader(..., num_workers=n, persistent_workers=True)"),
                Fix(
                    do="with tf.data, do the work in parallel and ahead of time",
                    code="dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)",
                ),
            ),
        )
