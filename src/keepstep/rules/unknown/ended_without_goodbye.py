# SPDX-License-Identifier: Apache-2.0
"""UNK003: a rank's process is gone, and it did not end as a healthy one does."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.ends import BOX_S, SUPERVISOR, ended_well, ends_of, exit_of, is_supervised, raised_by, stopped_before
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.guard import RankDoing, RankEnded
from keepstep.core.facts.process import ProcessExited
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import count
from keepstep.rules.resource.who_killed import WHO_KILLED

_NEXT_TIME = Fix(do="next time have crashes of native code print their stack", command="export PYTHONFAULTHANDLER=1")


@rule(
    id="UNK003",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(RankEnded,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
    explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.NETWORK_TIMEOUT_SLOW),
)
def ended_without_goodbye(seen: EvidenceSet) -> Iterator[Found]:
    """A rank was killed, crashed, or left with a status that is not 0, and nothing here says why.

    ## What it looks like
    `rank 1's black box ends at step 151 without a goodbye`: no output is needed to see it.

    ## Why it happens
    It was killed from outside (by the kernel for memory, a scheduler, a person), native code crashed, or the
    program ended itself after a failure that it printed elsewhere.

    ## How we know
    The guard writes a goodbye into the black box when the process ends by itself. The box outlives the process
    however it dies, so a missing goodbye is a process that did not get to it.

    ## What to do
    Look at that rank's own output, the kernel's log of its host, and the record of the scheduler.

    ## When this is wrong
    A library may end its process from native code when the work is done.
    """
    supervised = is_supervised(seen)
    told = [e for e in seen.all(ProcessExited) if e.fact.code is not None or e.fact.signal is not None]
    if ended_well(seen) or (supervised and any(e.who is not None and e.fact.reporter == SUPERVISOR for e in told)):
        return
    ends = seen.once(ends_of)
    # a supervisor ends those that are left, and says which had gone before
    silent = [e for e in ends.silent.values() if not supervised or exit_of(seen, e.fact.pid) is not None]
    open_ends = [e for e in silent if exit_of(seen, e.fact.pid) not in told]
    open_ends += [e for who, e in ends.badly.items() if not raised_by(seen, who)]
    if not open_ends:
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
        else (Fix(do="read what this rank printed last: it ended itself"),),
    )


def _first(seen: EvidenceSet, ended: list[Evidence[RankEnded]]) -> tuple[Evidence[RankEnded], bool]:
    """Who was the first, and whether that is sure."""
    # one that had left with status 0, and was ended on its way out, was ended because of another
    first = min(ended, key=lambda e: (e.fact.goodbye and e.fact.status == 0, e.at or 0.0))
    near = [e for e in ended if not e.fact.goodbye and abs((e.at or 0.0) - (first.at or 0.0)) <= BOX_S]
    if first not in near or len(near) == 1:
        return first, True
    # so near to each other the times do not tell; who had issued fewer collectives was the one that the others waited for
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
        return f"{name} ended with {first.fact.raised} after {steps}; its traceback is not here"
    return f"{name} ended itself with status {first.fact.status} after {steps}"


def _because(first: Evidence[RankEnded], others: int, sure: bool) -> str:
    more = f"; it was the first of {others + 1} that did not end well" if others else ""
    if not sure:
        more = f"; {others + 1} ended so within {BOX_S:g} s, and which was the first is not sure"
    if first.fact.goodbye:
        return f"a status other than 0 says that it failed, and nothing here says at what{more}"
    return f"a process that ends by itself says so, so this one was killed or crashed; nothing here says which{more}"
