# SPDX-License-Identifier: Apache-2.0
"""SLO006: the loader gave up waiting for a batch."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Slowness, Standing, rule
from keepstep.rules.asking.fallout import FALLOUT, who


@rule(
    id="SLO006",
    cause=Cause.SLOW_INPUT_BOUND,
    needs=(Slowness,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(*FALLOUT, Cause.UNKNOWN_NOT_ESTABLISHED),
)
def loader_timed_out(seen: EvidenceSet) -> Findings:
    """The loader gave up: no worker delivered a batch within the time limit.

    ## What it looks like
    `RuntimeError: DataLoader timed out after 300 seconds`, Gluon's `Worker timed out after 120 seconds`.

    ## Why it happens
    Reading or decoding takes longer than the limit (slow storage, a huge sample, too few workers), or the workers
    hang: a lock was held during the fork, or shared memory is full.

    ## How we know
    The loader says how long it waited. Its message does not say which of the two it was.

    ## What to do
    Time one sample without workers; then add workers, cache the data, or raise the limit.

    ## When this is wrong
    The workers are not slow but deadlocked: then no limit is long enough.
    """
    late = tuple(e for e in seen.all(Slowness) if e.fact.what == "loader" and not seen.survived(e))
    if not late:
        return
    waited = next((e.fact.detail for e in late if e.fact.detail), None)
    yield Found(
        title=f"the loader of {who(late)} got no batch{f' within {waited}' if waited else ' in time'}",
        because="no loader worker delivered a batch within the time limit",
        evidence=late,
        fixes=(
            Fix(do="time one sample in the main process", code="DataLoader(..., num_workers=0)"),
            Fix(
                do="start workers without fork, so they inherit no locks",
                code="DataLoader(..., multiprocessing_context='spawn')",
            ),
            Fix(do="check whether shared memory is full", command="df -h /dev/shm"),
        ),
    )
