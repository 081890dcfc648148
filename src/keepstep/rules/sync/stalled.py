# SPDX-License-Identifier: Apache-2.0
"""SYN056: ranks were still waiting for another rank when the log ended."""

from __future__ import annotations

from keepstep.model.facts import Phase, PhaseSeen, RanksMissing, StepSeen, StreamEnded
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, duration, rule
from keepstep.rules.api import ranks as say_ranks


@rule(
    id="SYN056",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(RanksMissing,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED,),
)
def stalled(seen: EvidenceSet) -> Findings:
    """Ranks reported that they were waiting for another rank, and the log ends there.

    ## What it looks like
    Horovod's `One or more tensors were submitted ... by subset of ranks and are waiting for remainder of
    ranks`, with `missing ranks: 1`, as the last message of the run.

    ## Why it happens
    The named rank is stuck or slow (reading, saving, waiting for a lock), died silently, or took a different
    path through the program and never reaches that collective.

    ## How we know
    The waiting ranks name the operation and the ranks that have not submitted it; no step was printed afterwards.

    ## What to do
    Look at what the missing rank is doing.

    ## When this is wrong
    The rank was only slow, and the log was cut before training continued.
    """
    waits = [e for e in seen.all(RanksMissing) if not e.fact.final and not _went_on(seen, e)]
    if not waits:
        return
    missing = tuple(dict.fromkeys(n for e in waits for n in e.fact.missing)) or _silent(seen, waits)
    longest = max((e.fact.waited_s or 0.0 for e in waits), default=0.0) * len(waits)
    told = f" for {duration(longest)} or more" if longest else ""
    who = say_ranks(missing) if missing else "a rank"
    yield Found(
        title=f"{who} did not join a collective, and the other ranks waited{told}",
        because=f"the waiting ranks report {who} as missing, and the log ends there"
        if any(e.fact.missing for e in waits)
        else "the other ranks' logs end in this wait" + (f", and that of {who} does not" if missing else ""),
        evidence=tuple(waits[:6]),
        ranks=missing if len(missing) <= 2 else (),
        fixes=(
            Fix(do="print the stack of the missing rank", command="py-spy dump --pid PID"),
            Fix(do="look for collectives that only some ranks reach (behind `if rank == 0`, in a last uneven batch)"),
        ),
    )


def _silent(seen: EvidenceSet, waits: list[Evidence[RanksMissing]]) -> tuple[int, ...]:
    """The few ranks with logs of their own that do not wait, where all others do."""
    waiting = {e.rank.index for e in waits if e.rank is not None}
    others = tuple(sorted({e.who for e in seen.all(StreamEnded) if e.who is not None} - waiting))
    return others if waiting and 0 < len(others) <= 2 else ()


def _went_on(seen: EvidenceSet, wait: Evidence[RanksMissing]) -> bool:
    """Whether any rank in the same log continued training or finished after this."""
    steps: tuple[Evidence[StepSeen] | Evidence[PhaseSeen], ...] = (
        *seen.all(StepSeen),
        *(e for e in seen.all(PhaseSeen) if e.fact.phase is Phase.FINISHED),
    )
    line = wait.origin.line or 0
    return any(e.origin.source == wait.origin.source and (e.origin.line or 0) > line for e in steps)
