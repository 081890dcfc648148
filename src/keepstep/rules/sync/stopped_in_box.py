# SPDX-License-Identifier: Apache-2.0
"""SYN205: the black boxes show that ranks stopped."""

from __future__ import annotations

from keepstep.model.facts import Fact, PeersWait, RankDoing, RankStopped, StackDump
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.sync._awaited import by_guards, by_steps
from keepstep.rules.sync._waiting import was
from keepstep.story.rank_endings import ended_by_hand, waited_to_the_end

FLOOR_S = 60.0
STEPS = 20
"""Without stacks only a long silence counts: a rank may load, save or wait for a while."""
LONG_PHASES = ("start", "compile", "checkpoint", "evaluation", "retry")
LONG_S = 600.0
"""Healthy pauses may take minutes, so a black box alone shows a hang only after this long."""


@rule(
    id="SYN205",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(RankDoing,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
)
def stopped_in_box(seen: EvidenceSet) -> Findings:
    """Ranks stopped making progress, and one of them is in a different place from the others.

    ## What it looks like
    No output, no error; all processes are alive.

    ## Why it happens
    One rank is stuck in its input, in its own code or in another collective; the others wait for it.

    ## How we know
    The black boxes show how long no step ended while the process was alive, and each rank's phase and step. Where
    the guards noted the numbers of the collectives in each group, all waits are followed through the groups to the
    ranks that wait for nobody.

    ## What to do
    Look at the named rank; `keepstep why --live` shows its line while it hangs.

    ## When this is wrong
    A step that takes far longer than all before it (a first large batch) looks the same until it ends.
    """
    ranks = {e.who: e for e in seen.all(RankDoing) if e.who is not None}
    stopped = [e for e in ranks.values() if _stopped(e.fact)]
    told = tuple(e for e in seen.all(RankStopped) if e.fact.proven)
    waited = waited_to_the_end(seen)
    if waited is not None and not told and not seen.all(StackDump) and (not seen.broken or ended_by_hand(seen)):
        yield _ended_while_waiting(*waited, ranks)
        return
    if not stopped and not told:
        return
    if not told and seen.all(StackDump):
        return  # stacks show more than silence does
    if not told and (len(stopped) < len([e for e in ranks.values() if e.fact.phase != "end"]) or seen.broken):
        return
    awaited = by_guards(seen)
    culprits = awaited.ranks if awaited is not None else by_steps(ranks) if len(ranks) > 1 else tuple(ranks)
    shown = awaited.shown if awaited is not None else ()
    evidence: tuple[Evidence[Fact], ...] = (*told[:4], *shown[:4], *[ranks[each] for each in sorted(ranks)][:8])
    if culprits:
        first = ranks.get(culprits[0])
        doing = f" ({first.quote})" if first is not None and first.quote else ""
        title = f"{say_ranks(culprits)} stopped{doing}, and the other ranks waited"
    else:
        title = "all ranks stopped at the same place"
    longest = max([e.fact.silent_s or 0.0 for e in stopped] + [e.fact.seconds for e in told])
    yield Found(
        title=title,
        because=f"the black boxes show that no rank made progress for {longest:.0f} s"
        + (f"; {awaited.because}" if awaited is not None else ""),
        evidence=evidence,
        ranks=culprits,
        confidence=Confidence.SUPPORTED if culprits else Confidence.HYPOTHESIS,
        fixes=(Fix(do="print each rank's line while it hangs", command="keepstep why --live"),),
    )


def _ended_while_waiting(waited: Evidence[PeersWait], silent: float, ranks: dict[int, Evidence[RankDoing]]) -> Found:
    late, others = waited.fact.late, waited.fact.waiting
    place = waited.fact.where or "elsewhere"
    return Found(
        title=f"{say_ranks(late)} {was(late)} {place}; {say_ranks(others)} waited until the job was ended",
        because=f"the black boxes show that no rank had moved for {silent:.0f} s when the job ended",
        evidence=(waited, *(ranks[each] for each in sorted(ranks)[:8])),
        ranks=late,
        fixes=(
            Fix(
                do="look at the named line; the next time it hangs, print the line of every rank",
                command="keepstep why --live",
            ),
        ),
    )


def _stopped(fact: RankDoing) -> bool:
    if fact.phase == "end" or fact.silent_s is None or (fact.phase == "start" and fact.steps == 0):
        return False
    if fact.phase in LONG_PHASES:
        return fact.silent_s > LONG_S
    return fact.steps > 0 and fact.silent_s > FLOOR_S + STEPS * (fact.usual_step_s or 0.0)
