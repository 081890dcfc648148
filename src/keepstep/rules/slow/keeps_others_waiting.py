# SPDX-License-Identifier: Apache-2.0
"""SLO201: the guards' own clocks show a rank that keeps the others waiting."""

from __future__ import annotations

from keepstep.model.facts import RankLate, WorldFormed
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.trains_apart import trains_apart


@rule(
    id="SLO201",
    cause=Cause.SLOW_STRAGGLER,
    needs=(RankLate,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def keeps_others_waiting(seen: EvidenceSet) -> Findings:
    """One rank keeps the others waiting at every step.

    ## What it looks like
    All ranks are equally slow, since each step waits for the slowest; logs do not show which rank that is.

    ## Why it happens
    A throttled or shared CPU or device, a slow disk or loader, or more work in that rank's share of the data.

    ## How we know
    The black boxes show that one rank waits for its batches, or for a CPU (the kernel counts how long the training
    thread was ready to run but did not), and that the others do not. Ranks on one host share a clock, so there we
    also name the rank that finishes nearly every step last.

    ## What to do
    Look at that rank's host: other processes, control groups, clocks and temperature, its disk.

    ## When this is wrong
    Ranks take turns when batches differ in length; then we name none. Nor do we where all ranks are slowed alike.
    """
    alone = {e.who for e in seen.all(WorldFormed) if e.fact.at_step and e.fact.size == 1}  # no rank waits for them
    alone |= {*trains_apart(seen)[0]}
    late = [e for e in seen.all(RankLate) if e.who is not None and e.who not in alone]
    late = [e for e in late if e.fact.against == "peers"] or _worse_than_before(late, seen)
    if not late:
        return
    fact = late[-1].fact
    rank = late[-1].who
    where = "waits for its batches" if fact.phase == "input" else f"is behind in the {fact.phase} phase"
    if fact.held:
        where = "waits for a CPU"
    before = f"; earlier it lost {fact.before_s * 1000:.0f} ms itself" if fact.before_s is not None else ""
    steps = fact.steps or "a few"
    yield Found(
        title=f"rank {rank} keeps the others waiting: it {where}, {fact.seconds * 1000:.0f} ms per step",
        because=(
            f"earlier it lost only {fact.usual_s * 1000:.0f} ms per step there"
            if fact.against == "past"
            else f"the others lost {fact.usual_s * 1000:.0f} ms per step there, over {steps} steps{before}"
        ),
        evidence=tuple(late[-4:]),
        ranks=(rank,) if rank is not None else (),
        fixes=(
            Fix(
                do="check what else runs on that rank's host",
                command="top -b -n 1 | head -20; cat /sys/fs/cgroup/cpu/cpu.stat",
            )
            if fact.phase != "input"
            else Fix(
                do="give its loader more workers, or move its data to a faster disk",
                code="DataLoader(..., num_workers=8)",
            ),
        ),
    )


def _worse_than_before(late: list[Evidence[RankLate]], seen: EvidenceSet) -> list[Evidence[RankLate]]:
    """Where peers were not compared: ranks that lose more time than they used to, if at most half of the ranks do."""
    ranks = {e.who for e in late if e.fact.against == "past"}
    world = max((e.fact.size for e in seen.all(WorldFormed)), default=0)
    return [e for e in late if e.fact.against == "past"] if 0 < 2 * len(ranks) <= world else []
