# SPDX-License-Identifier: Apache-2.0
"""UNK004: a process was killed by a signal that another process sent, and nothing shows which."""

from __future__ import annotations

from keepstep.model.facts import CoreDump, Fact, FatalSignal, ProcessExited, RankEnded
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    ranks,
    ranks_of,
    rule,
)
from keepstep.rules.asking.crash import struck_from_outside
from keepstep.rules.asking.who_killed import WHO_KILLED, killed_first, memory_around, only_missed, who_was
from keepstep.signals.stacks import place
from keepstep.story.rank_endings import stopped_before

LEAVES_A_CORE = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGQUIT")


@rule(
    id="UNK004",
    cause=Cause.UNKNOWN_NOT_ESTABLISHED,
    needs=(ProcessExited, CoreDump, FatalSignal),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
    explains=SEEN_BY_OTHER_RANKS,
)
def killed_from_outside(seen: EvidenceSet) -> Findings:
    """A process was killed from outside, and no evidence shows by whom.

    ## What it looks like
    `exitcode: -9`, `Killed` or exit code 137 in the middle of training. The process itself prints nothing, and the
    other ranks lose their connection to it. If the signal is one that crashes raise (SIGSEGV, SIGFPE, SIGABRT), the
    core file looks like that of a crash.

    ## Why it happens
    The kernel kills when memory runs out, a scheduler when its grace period ends, a person or a watchdog for reasons
    of their own. Watchdogs often send SIGABRT, because it leaves a core of the process that did not respond.

    ## How we know
    SIGKILL ended this process before anything else failed. Neither the kernel, a control group nor the scheduler
    reports a reason, and no memory reading shows a shortage. For other signals, the core file says whether the
    processor raised the signal or a process sent it, and which process. Where a handler raised it again, the native
    stack shows whether the thread waited in the kernel when it came: no fault happens there.

    ## What to do
    Check where kills are recorded: the kernel log of the host, the scheduler, the pod's last state.

    ## When this is wrong
    The signal is certain. The sender is left open on purpose.
    """
    yield from _by_sigkill(seen)
    yield from _by_a_signal_of_crashes(seen)
    yield from _while_it_waited(seen)


def _by_sigkill(seen: EvidenceSet) -> Findings:
    killed = killed_first(seen)
    if not killed or memory_around(seen) is not None:
        return
    blamed, were = who_was(seen, killed)
    boxes: tuple[Evidence[Fact], ...] = tuple(e for e in seen.all(RankEnded) if e.who in blamed and not e.fact.goodbye)
    last = (
        f" at step {boxes[0].fact.steps}"
        if boxes and isinstance(boxes[0].fact, RankEnded) and boxes[0].fact.steps
        else ""
    )
    yield Found(
        title=f"{were} killed from outside{last} (SIGKILL); nothing shows by whom",
        because=(
            "SIGKILL came before any other failure, and neither the kernel, a control group, a scheduler "
            "nor a memory reading gives a reason"
        ),
        evidence=(*killed, *boxes),
        ranks=blamed,
        confidence=Confidence.SUPPORTED if boxes or only_missed(seen, killed[0]) else None,
        fixes=WHO_KILLED,
    )


def _by_a_signal_of_crashes(seen: EvidenceSet) -> Findings:
    for core in seen.all(CoreDump):
        fact = core.fact
        if fact.sent_by is None or fact.signal not in LEAVES_A_CORE or stopped_before(seen, core.at):
            continue
        name = ranks([core.who]) if core.who is not None else "a process"
        sender = f"process {fact.sent_by}" if fact.sent_by else "a process outside its container"
        yield Found(
            title=f"{name} did not crash: {sender} sent it {fact.signal}; nothing shows why",
            because=(
                f"its core file says that {sender} sent {fact.signal}, and that the processor did not raise it; "
                "the line it stopped at is a coincidence"
            ),
            evidence=(core,),
            ranks=ranks_of((core,)),
            confidence=Confidence.SUPPORTED,
            fixes=(
                Fix(
                    do="find out what that process is, if it still runs",
                    command=f"ps -o pid,lstart,args -p {fact.sent_by}",
                ),
                *WHO_KILLED,
            )
            if fact.sent_by
            else WHO_KILLED,
        )


def _while_it_waited(seen: EvidenceSet) -> Findings:
    for crash in struck_from_outside(seen):
        waited = crash.sent_while_waiting
        assert waited is not None
        line = f", called from {place(crash.user_line)}" if crash.user_line is not None else ""
        yield Found(
            title=f"{crash.name} did not crash: it was sent {crash.signal}; nothing shows by whom",
            because=(
                f"the thread waited in the kernel ({waited.function}{line}) when the signal came, "
                "and no instruction of the program faults there"
            ),
            evidence=tuple(crash.evidence),
            ranks=(crash.rank,) if crash.rank is not None else (),
            confidence=Confidence.SUPPORTED,
            fixes=WHO_KILLED,
        )
