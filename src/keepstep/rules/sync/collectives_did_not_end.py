# SPDX-License-Identifier: Apache-2.0
"""SYN030: collectives that were tried before the run did not come to an end."""

from __future__ import annotations

from keepstep.base.wording import duration
from keepstep.base.wording import ranks as say_ranks
from keepstep.model.facts import CollectivesFailed
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule


@rule(
    id="SYN030",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(CollectivesFailed,),
    confidence=Confidence.SUPPORTED,
)
def collectives_did_not_end(seen: EvidenceSet) -> Findings:
    """The framework's own collectives do not work between these ranks, so no training would.

    ## What it looks like
    `keepstep check collectives` starts a job that does nothing but collectives. One of its ranks raised, or all of
    them were still in one when the time was up.

    ## Why it happens
    Ranks cannot reach each other on the ports or interfaces that the library takes, one of them has another version
    or backend, or a device or link hangs.

    ## How we know
    The job is keepstep's own, so the training script is out.

    ## What to do
    Look at what the first rank that failed said. `keepstep check network` tries every pair of hosts without the
    framework.

    ## When this is wrong
    On a very slow machine the trials take longer than their time. Give them more with --limit.
    """
    failed = seen.all(CollectivesFailed)
    said = [each for each in failed if each.fact.late_s is None and each.fact.said]
    if not failed:
        return
    first = (said or failed)[0].fact
    late = first.late_s is not None
    yield Found(
        title=f"{first.framework}'s collectives do not come to an end: {first.during}"
        if late
        else f"{first.framework}'s collectives fail on rank {first.rank}: {first.said}",
        because=f"{say_ranks(each.fact.rank for each in failed)} {'was' if len(failed) == 1 else 'were'} still there"
        f" after {duration(first.late_s or 0.0)}"
        if late
        else f"it happened in {first.during}, in a job of keepstep's own",
        evidence=tuple(said or failed)[:6],
        ranks=(first.rank,) if not late else (),
        fixes=(
            Fix(do="try every pair of hosts without the framework", command="keepstep check network"),
            Fix(do="see what the library does", command="NCCL_DEBUG=INFO keepstep check collectives"),
        ),
    )
