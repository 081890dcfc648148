# SPDX-License-Identifier: Apache-2.0
"""UNK004: a process was killed by SIGKILL, and nothing shows by whom."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.guard import RankEnded
from keepstep.core.facts.process import ProcessExited
from keepstep.core.finding import Confidence, Found, Standing, ranks_of
from keepstep.core.rule import rule
from keepstep.core.wording import ranks
from keepstep.rules.resource.who_killed import WHO_KILLED, killed_first, memory_around, only_missed


@rule(
    id="UNK004",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(ProcessExited,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    ),
)
def killed_from_outside(seen: EvidenceSet) -> Iterator[Found]:
    """A process was killed from outside (SIGKILL), and nothing that was seen shows by whom.

    ## What it looks like
    `exitcode: -9`, `Killed`, exit code 137, in the middle of the training. The process itself prints nothing; the others
    lose the connection to it.

    ## Why it happens
    The kernel kills for memory; a scheduler kills after its time of grace; a person or a watchdog kills by hand.

    ## How we know
    SIGKILL ended this process before anything else failed. No word of the kernel, the control group or the
    scheduler is here, and no reading of memory points to a lack of it.

    ## What to do
    Ask those who keep a record of it: the kernel's log of the host, the scheduler, the pod's last state.

    ## When this is wrong
    It is never wrong about the signal; the sender is left open on purpose.
    """
    killed = killed_first(seen)
    if not killed or memory_around(seen) is not None:
        return
    blamed = ranks_of(killed) or tuple(e.fact.local_rank for e in killed if e.fact.local_rank is not None)
    name = ranks(blamed) if blamed else "a process"
    boxes: tuple[Evidence[Fact], ...] = tuple(e for e in seen.all(RankEnded) if e.who in blamed and not e.fact.goodbye)
    last = f" at step {boxes[0].fact.steps}" if boxes and isinstance(boxes[0].fact, RankEnded) and boxes[0].fact.steps else ""
    yield Found(
        title=f"{name} {'were' if len(set(blamed)) > 1 else 'was'} killed from outside{last} (SIGKILL); nothing shows by whom",
        because="SIGKILL came before any other failure, and neither the kernel, a control group, a scheduler nor a reading of memory says why",
        evidence=(*killed, *boxes),
        ranks=blamed,
        confidence=Confidence.SUPPORTED if boxes or only_missed(seen, killed[0]) else None,
        fixes=WHO_KILLED,
    )
