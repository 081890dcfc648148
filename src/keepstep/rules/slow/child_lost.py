# SPDX-License-Identifier: Apache-2.0
"""SLO012: steps became much slower when a child process of the rank had ended."""

from __future__ import annotations

from keepstep.rules.api import (
    Cause,
    ChildLost,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    PaceChanged,
    Severity,
    Standing,
    rule,
    shorten,
)

NOTED_S = 5.0
"""The guard notes a lost child at its second look."""


@rule(
    id="SLO012",
    cause=Cause.SLOW_INPUT_BOUND,
    needs=(ChildLost,),
    severity=Severity.WARNING,
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
)
def child_lost(seen: EvidenceSet) -> Findings:
    """Steps became many times slower and stayed so, after a child process of the rank had ended unnoticed.

    ## What it looks like
    Steps take 10 ms; from step 300 on every one takes a second. Nothing fails, and nothing is printed.

    ## Why it happens
    A process that prepares batches died, of an exception, a signal or for want of memory. The program asks its queue
    with a time limit, takes the old batch when it is empty, and goes on: each step waits until that limit.

    ## How we know
    The rank's black box has the time of each step. The guard notes a child that ended without the rank asking for it.

    ## What to do
    Look at why the child ended. Let the program check its children where a queue times out, and stop.

    ## When this is wrong
    The child had done its work, and the steps are slower for another reason.
    """
    for changed in seen.all(PaceChanged):
        lost = [e for e in seen.all(ChildLost) if e.who == changed.who and _before(e, changed)]
        if lost:
            yield _found(changed, lost[-1])


def _before(lost: Evidence[ChildLost], changed: Evidence[PaceChanged]) -> bool:
    """Whether it ended before the first slow step did."""
    return lost.at is not None and changed.at is not None and lost.at <= changed.at + changed.fact.after_s + NOTED_S


def _found(changed: Evidence[PaceChanged], lost: Evidence[ChildLost]) -> Found:
    fact, child = changed.fact, lost.fact
    where = f" from step {fact.step} on" if fact.step is not None else ""
    how = child.signal or (f"status {child.code}" if child.code is not None else "status unknown")
    who = f"rank {changed.who}" if changed.who is not None else "the rank"
    return Found(
        title=f"steps took {fact.after_s / fact.before_s:.0f} times as long{where}: {fact.after_s:.2g} s instead of "
        f"{fact.before_s:.2g} s, after a child process of {who} had ended ({how})",
        because=f"{who} did not ask how pid {child.pid} ended ({shorten(child.command, 60)}), and went on without it",
        evidence=(changed, lost),
        fixes=(
            Fix(do="look at why the child ended: its output, an exception, the kernel log"),
            Fix(do="let the program check its children (is_alive, exitcode) where a queue times out, and stop"),
        ),
    )
