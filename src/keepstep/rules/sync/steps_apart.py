# SPDX-License-Identifier: Apache-2.0
"""SYN058: ranks of one run are at different steps."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, StepSeen, rule

FAR = 100
"""Ranks that wait for each other cannot be this many steps apart."""


@rule(
    id="SYN058",
    cause=Cause.SYNC_REPLICA_DESYNC,
    needs=(StepSeen,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def steps_apart(seen: EvidenceSet) -> Findings:
    """Ranks that must be at the same step print steps that are far apart.

    ## What it looks like
    `loss = 0.15, step = 140, rank = 3` next to `loss = 0.11, step = 2642, rank = 6`, while both keep training.

    ## Why it happens
    Some ranks restored a checkpoint and others did not, and rank 0's state was not sent to all.
    From then on they average gradients of different models.

    ## How we know
    The lines name rank and step, the ranks take turns in one log, and some are more than a hundred steps
    ahead of others, and more than twice as far.

    ## What to do
    Restore on one rank and broadcast model, optimizer and step; or give every rank the same checkpoint.

    ## When this is wrong
    Programs that train independently on each rank (a search over settings, asynchronous workers).
    """
    last: dict[int, Evidence[StepSeen]] = {}
    first: dict[int, int] = {}
    for each in seen.all(StepSeen):
        rank = each.fact.rank
        if rank is not None and each.fact.step is not None:
            first.setdefault(rank, each.origin.line or 0)
            last[rank] = each
    if len(last) < 2 or len({e.origin.source for e in last.values()}) > 1:
        return
    ordered = sorted(last.values(), key=lambda e: e.fact.step or 0)
    low, high = ordered[0], ordered[-1]
    behind, ahead = low.fact.step or 0, high.fact.step or 0
    if ahead - behind < FAR or ahead < 2 * behind or not _take_turns(first, last):
        return
    yield Found(
        title=f"ranks are at different steps: rank {low.who} at {behind}, rank {high.who} at {ahead}",
        because="ranks that average their gradients are at the same step, unless they started from different states",
        evidence=(low, high),
        ranks=(),
        fixes=(
            Fix(
                do="send the state of rank 0 to all ranks before the first step",
                code="hvd.broadcast_global_variables(0)",
            ),
            Fix(do="remove old checkpoints that only some hosts see, or move them to storage that all hosts share"),
        ),
    )


def _take_turns(first: dict[int, int], last: dict[int, Evidence[StepSeen]]) -> bool:
    """Whether every rank printed its first step before any printed its last."""
    return max(first.values()) < min(e.origin.line or 0 for e in last.values()) + len(last)
