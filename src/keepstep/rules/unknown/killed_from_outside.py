# SPDX-License-Identifier: Apache-2.0
"""UNK004: a process was ended by a signal that somebody sent, and nothing shows who."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.ends import stopped_before
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.guard import RankEnded
from keepstep.core.facts.process import CoreDump, ProcessExited
from keepstep.core.finding import Confidence, Fix, Found, Standing, ranks_of
from keepstep.core.rule import rule
from keepstep.core.wording import ranks
from keepstep.rules.resource.who_killed import WHO_KILLED, killed_first, memory_around, only_missed

LEAVES_A_CORE = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGQUIT")


@rule(
    id="UNK004",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(ProcessExited, CoreDump),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    ),
)
def killed_from_outside(seen: EvidenceSet) -> Iterator[Found]:
    """A process was killed from outside, and nothing that was seen shows by whom.

    ## What it looks like
    `exitcode: -9`, `Killed`, exit code 137, in the middle of the training. The process itself prints nothing; the others
    lose the connection to it. A signal that a crash would have raised (SIGSEGV, SIGFPE, SIGABRT) leaves a core that looks
    like one of a crash.

    ## Why it happens
    The kernel kills for memory; a scheduler kills after its time of grace; a person or a watchdog kills by hand.
    Watchdogs like SIGABRT, since it leaves a core of the process that did not answer.

    ## How we know
    SIGKILL ended this process before anything else failed. No word of the kernel, the control group or the
    scheduler is here, and no reading of memory points to a lack of it. Of other signals a core tells whether the
    processor raised them or a process sent them, and which one.

    ## What to do
    Ask those who keep a record of it: the kernel's log of the host, the scheduler, the pod's last state.

    ## When this is wrong
    It is never wrong about the signal; the sender is left open on purpose.
    """
    yield from _by_sigkill(seen)
    yield from _by_a_signal_of_crashes(seen)


def _by_sigkill(seen: EvidenceSet) -> Iterator[Found]:
    killed = killed_first(seen)
    if not killed or memory_around(seen) is not None:
        return
    blamed = ranks_of(killed) or tuple(e.fact.local_rank for e in killed if e.fact.local_rank is not None)
    name = ranks(blamed) if blamed else "a process"
    boxes: tuple[Evidence[Fact], ...] = tuple(e for e in seen.all(RankEnded) if e.who in blamed and not e.fact.goodbye)
    last = (
        f" at step {boxes[0].fact.steps}"
        if boxes and isinstance(boxes[0].fact, RankEnded) and boxes[0].fact.steps
        else ""
    )
    yield Found(
        title=f"{name} {'were' if len(set(blamed)) > 1 else 'was'} killed from outside{last} (SIGKILL); nothing shows by whom",
        because="SIGKILL came before any other failure, and neither the kernel, a control group, a scheduler nor a reading of memory says why",
        evidence=(*killed, *boxes),
        ranks=blamed,
        confidence=Confidence.SUPPORTED if boxes or only_missed(seen, killed[0]) else None,
        fixes=WHO_KILLED,
    )


def _by_a_signal_of_crashes(seen: EvidenceSet) -> Iterator[Found]:
    for core in seen.all(CoreDump):
        fact = core.fact
        if fact.sent_by is None or fact.signal not in LEAVES_A_CORE or stopped_before(seen, core.at):
            continue
        name = ranks([core.who]) if core.who is not None else "a process"
        sender = f"process {fact.sent_by}" if fact.sent_by else "a process outside of its container"
        yield Found(
            title=f"{name} did not crash: {sender} sent it {fact.signal}; nothing shows why",
            because=f"its core says that {fact.signal} was sent by {sender}, where a crash would show the processor's own fault; where it stood is where it happened to be",
            evidence=(core,),
            ranks=ranks_of((core,)),
            confidence=Confidence.SUPPORTED,
            fixes=(
                Fix(do="see who that process was, if it lives", command=f"ps -o pid,lstart,args -p {fact.sent_by}"),
                *WHO_KILLED,
            )
            if fact.sent_by
            else WHO_KILLED,
        )
