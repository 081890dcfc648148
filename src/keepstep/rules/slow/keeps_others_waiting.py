# SPDX-License-Identifier: Apache-2.0
"""SLO201: a rank keeps the others waiting, by the guards' own clocks."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.guard import RankLate, WorldFormed
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule


@rule(
    id="SLO201",
    cause=Cause.SLOW_STRAGGLER,
    needs=(RankLate,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def keeps_others_waiting(seen: EvidenceSet) -> Iterator[Found]:
    """One rank keeps the others waiting at every step.

    ## What it looks like
    All ranks are equally slow, since each step waits for the slowest; logs do not show for whom.

    ## Why it happens
    A throttled or shared processor or device, a slow disk or loader, or more work in that rank's share of the data.

    ## How we know
    The black boxes of the ranks of one host share a clock: one rank is done last with nearly every step, or waits
    for its batches while the others have theirs.

    ## What to do
    Look at that rank's host: other processes, control groups, clocks and temperature, its disk.

    ## When this is wrong
    Ranks take turns when batches differ in length; then none is named. Ranks of different hosts are not compared.
    """
    alone = {e.who for e in seen.all(WorldFormed) if e.fact.at_step and e.fact.size == 1}  # nobody waits for them
    late = [e for e in seen.all(RankLate) if e.who is not None and e.who not in alone]
    if not late:
        return
    fact = late[-1].fact
    rank = late[-1].who
    where = "waits for its batches" if fact.phase == "input" else f"is behind in the {fact.phase} of each step"
    yield Found(
        title=f"rank {rank} keeps the others waiting: it {where}, {fact.seconds * 1000:.0f} ms a step",
        because=f"the others lose {fact.usual_s * 1000:.0f} ms there, in the last {fact.steps or 'few'} steps",
        evidence=tuple(late[-4:]),
        ranks=(rank,) if rank is not None else (),
        fixes=(
            Fix(do="see what else runs on that rank's host", command="top -b -n 1 | head -20; cat /sys/fs/cgroup/cpu/cpu.stat")
            if fact.phase != "input"
            else Fix(do="give its loader more workers, or move its data to a faster disk", command="DataLoader(..., num_workers=8)"),
        ),
    )
