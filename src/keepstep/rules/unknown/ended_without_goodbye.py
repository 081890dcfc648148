# SPDX-License-Identifier: Apache-2.0
"""UNK003: a rank's process ended, but not the way a healthy one does."""

from __future__ import annotations

from keepstep.model.facts import Fact, ProcessExited, RankDoing, RankEnded
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, count, rule
from keepstep.rules.asking.left_by_itself import left_by_itself
from keepstep.rules.asking.who_killed import WHO_KILLED
from keepstep.story.rank_endings import (
    BOX_S,
    SUPERVISOR,
    ended_well,
    ends_of,
    exit_of,
    is_supervised,
    raised_by,
    stopped_before,
)

_NEXT_TIME = Fix(do="make native crashes print their stack next time", command="export PYTHONFAULTHANDLER=1")


@rule(
    id="UNK003",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(RankEnded,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.NETWORK_TIMEOUT_SLOW),
)
def ended_without_goodbye(seen: EvidenceSet) -> Findings:
    """A rank was killed, crashed, or exited with a status other than 0, and nothing here says why.

    ## What it looks like
    `rank 1's black box ends at step 151 without a goodbye`. The rank may have printed nothing at all.

    ## Why it happens
    Something killed it (the kernel when memory ran out, a scheduler, a person), native code crashed, or the program
    exited after a failure that it printed elsewhere.

    ## How we know
    The guard writes a goodbye into the black box when the process exits by itself. The box outlives the process
    however it ends, so a missing goodbye means that the process never got that far.

    ## What to do
    Look at that rank's own output, the kernel log of its host, and the scheduler's records.

    ## When this is wrong
    A library may exit from native code once the work is done.
    """
    supervised = is_supervised(seen)
    told = [e for e in seen.all(ProcessExited) if e.fact.code is not None or e.fact.signal is not None]
    if ended_well(seen) or (supervised and any(e.who is not None and e.fact.reporter == SUPERVISOR for e in told)):
        return
    ends = seen.once(ends_of)
    # a supervisor ends the remaining ranks, and says which ones had exited before
    silent = [e for e in ends.silent.values() if not supervised or exit_of(seen, e.fact.pid) is not None]
    open_ends = [e for e in silent if exit_of(seen, e.fact.pid) not in told]
    open_ends += [e for who, e in ends.badly.items() if not raised_by(seen, who)]
    if not open_ends or left_by_itself(seen) is not None:
        return
    first, sure = _first(seen, [*silent, *ends.badly.values()])
    gone = exit_of(seen, first.fact.pid)
    if first not in open_ends or stopped_before(seen, gone.at if gone is not None else None):
        return
    others = tuple(e for e in (*silent, *ends.badly.values()) if e is not first)
    evidence: tuple[Evidence[Fact], ...] = (first, *others[:8])
    yield Found(
        title=_title(first),
        because=_because(first, len(others), sure),
        evidence=evidence,
        ranks=(first.who,) if first.who is not None else (),
        confidence=None if sure else Confidence.HYPOTHESIS,
        fixes=(*WHO_KILLED, _NEXT_TIME)
        if not first.fact.goodbye
        else (Fix(do="read the last lines this rank printed: it exited by itself"),),
    )


def _first(seen: EvidenceSet, ended: list[Evidence[RankEnded]]) -> tuple[Evidence[RankEnded], bool]:
    """The first rank to end, and whether that is certain."""
    # a rank that exited with status 0 and was ended on its way out ended because of another
    first = min(ended, key=lambda e: (e.fact.goodbye and e.fact.status == 0, e.at or 0.0))
    near = [e for e in ended if not e.fact.goodbye and abs((e.at or 0.0) - (first.at or 0.0)) <= BOX_S]
    if first not in near or len(near) == 1:
        return first, True
    # times this close prove nothing; the others were waiting for the rank that had issued fewer collectives
    issued = {e.who: e.fact.collective for e in seen.all(RankDoing)}
    known = [number for e in near if (number := issued.get(e.who)) is not None]
    behind = [e for e in near if known and issued.get(e.who) == min(known)]
    if len(known) == len(near) and len(behind) == 1:
        return behind[0], True
    return first, False


def _title(first: Evidence[RankEnded]) -> str:
    name = f"rank {first.who}" if first.who is not None else f"process {first.fact.pid}"
    steps = count(first.fact.steps, "step")
    if not first.fact.goodbye:
        return f"{name}'s black box ends at step {first.fact.steps} without a goodbye"
    if first.fact.raised:
        return f"{name} exited with {first.fact.raised} after {steps}; its traceback is not in these logs"
    return f"{name} exited with status {first.fact.status} after {steps}"


def _because(first: Evidence[RankEnded], others: int, sure: bool) -> str:
    more = f"; it was the first of {others + 1} ranks to fail" if others else ""
    if not sure:
        more = f"; {others + 1} ranks ended like this within {BOX_S:g} s, too close to say which was first"
    if first.fact.goodbye:
        return f"a status other than 0 means that it failed, and nothing here says why{more}"
    return f"a process that exits by itself leaves a goodbye, so this one was killed or crashed{more}"
