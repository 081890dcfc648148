# SPDX-License-Identifier: Apache-2.0
"""PRE001: the run was ended from outside."""

from __future__ import annotations

from keepstep.model.facts import (
    CollectiveMismatch,
    CollectiveTimeout,
    ConnectFailed,
    DeviceFault,
    DeviceMemoryExhausted,
    ExceptionRaised,
    Fact,
    FatalSignal,
    HostAllocationFailed,
    LabelOutOfRange,
    MachineFault,
    NativeAbort,
    NotScheduled,
    OomKilled,
    PeerLost,
    Phase,
    PhaseSeen,
    Preempted,
    ProcessExited,
    RankEnded,
    RanksMissing,
    RendezvousTimeout,
    StreamEnded,
    TerminationRequested,
)
from keepstep.rules.api import (
    TO_THE_END,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    ranks_of,
    rule,
)
from keepstep.rules.asking.exceptions import is_wrapper
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, ended_by, once_a_line
from keepstep.rules.asking.timelines import stood_still
from keepstep.rules.asking.waits_at_start import still_waiting
from keepstep.story.rank_endings import ended_by_hand, ends_of, given_up_before, is_supervised, stopped_before

LONGEST_GRACE_S = 600.0
_OWN_TEARDOWN = ("agent", "mpirun", "launcher", "torchrun", "framework")
_ENDING = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", None)
_FAILURES: tuple[type[Fact], ...] = (
    FatalSignal, NativeAbort, DeviceMemoryExhausted, HostAllocationFailed, OomKilled, CollectiveTimeout,
    CollectiveMismatch, RanksMissing, RendezvousTimeout, DeviceFault, MachineFault, LabelOutOfRange, ConnectFailed,
    PeerLost, NotScheduled,
)  # fmt: skip
_FIXES = (
    Fix(
        do="ask the scheduler why it ended the job",
        command="sacct -u $USER -o JobID,State,ExitCode,Elapsed,Timelimit || kubectl get events",
    ),
    Fix(do="save a checkpoint when SIGTERM arrives, and resume from the newest one"),
    Fix(do="request more time, or capacity that is not reclaimed"),
)
BY_CTRL_C = "the user ended the run (Ctrl-C)"
BY_HAND = (Fix(do="restart it from its newest checkpoint, if it was ended by mistake"),)


@rule(
    id="PRE001",
    cause=Cause.PREEMPTION_SIGTERM,
    needs=(Preempted, TerminationRequested, ProcessExited, RankEnded),
    explains=(*OF_A_DEAD_RANK, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.USER_NATIVE_CRASH),
)
def sigterm(seen: EvidenceSet) -> Findings:
    """The run was ended from outside: time limit, preemption, a reclaimed machine, a cancelled job.

    ## What it looks like
    Slurm's `CANCELLED AT ... DUE TO TIME LIMIT` or `DUE TO PREEMPTION`, torchrun's `Received 15 death signal`
    and `SignalException: Process 7 got signal: 15`, a spot machine's notice, Kubernetes' `Preempted by`.

    ## Why it happens
    The requested time was over, a job with a higher priority needed the machines, the cloud reclaimed the machine,
    or a person cancelled the job.

    ## How we know
    The scheduler or cloud says so; or SIGTERM reached the launcher and nothing had failed before. The
    SIGTERM that a launcher itself sends to the other ranks after a failure is teardown and does not count.

    ## What to do
    Save on SIGTERM, resume from the last checkpoint, request more time.

    ## When this is wrong
    A run that hangs is also ended by its time limit; then the hang is the cause.
    """
    told = once_a_line(e for e in seen.all(Preempted) if not seen.survived(e))
    if told:
        fact = told[0].fact
        hung = "time limit" in (fact.reason or "") and bool(
            seen.all(CollectiveTimeout) or seen.all(RanksMissing) or stood_still(seen, told[0].at)
        )
        yield Found(
            title=f"{fact.by} ended the run{f': {fact.reason}' if fact.reason else ''}",
            because=f"{fact.by} ended the job or reclaimed the machine{f' ({fact.reason})' if fact.reason else ''}",
            evidence=told,
            standing=Standing.SYMPTOM if hung else Standing.EXCEPTION if "time limit" in (fact.reason or "") else None,
            fixes=_FIXES,
        )
        return
    asked = [
        e
        for e in seen.all(TerminationRequested)
        if e.fact.by not in _OWN_TEARDOWN
        and e.fact.signal in _ENDING
        and not _outlived(seen, e)
        and not _torn_down(seen, e)
    ]
    if asked and not failed_before(seen, asked[0]):
        signal = asked[0].fact.signal or "a signal"
        by = asked[0].fact.by
        interrupted = signal == "SIGINT" and by in (None, "user")  # somebody had a reason: what else was seen says more
        ctrl_c = interrupted and by == "user"
        yield Found(
            title=BY_CTRL_C if ctrl_c else f"the run was ended from outside ({signal}{f', by the {by}' if by else ''})",
            because=asked[0].fact.reason or f"{signal} arrived, and nothing had failed before",
            evidence=once_a_line(asked),
            ranks=ranks_of(tuple(asked)),
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM if interrupted else Standing.EXCEPTION,
            fixes=BY_HAND if ctrl_c else _FIXES,
        )
        return
    by_hand = tuple(seen.once(ends_of).interrupted.values())
    if by_hand and ended_by_hand(seen) and not failed_before(seen, min(by_hand, key=lambda e: e.at or 0.0)):
        yield Found(
            title=BY_CTRL_C,
            because="KeyboardInterrupt ended the ranks, and nothing had failed before",
            evidence=by_hand[:8],
            ranks=ranks_of(by_hand),
            confidence=Confidence.SUPPORTED,
            standing=Standing.EXCEPTION,
            fixes=BY_HAND,
        )
        return
    if not asked:
        yield from _by_exits(seen)


def _by_exits(seen: EvidenceSet) -> Findings:
    """Nothing shows who sent SIGTERM, but the first process to exit was ended by it."""
    exits = seen.bad_exits
    first = tuple(e for e in exits if e.fact.first) or exits
    if not first or not all(ended_by(e.fact, "SIGTERM") for e in first) or failed_before(seen, first[0]):
        return
    if any(not ended_by(e.fact, "SIGTERM") and not ended_by(e.fact, "SIGKILL") and e.fact.code != 1 for e in exits):
        return
    yield Found(
        title="SIGTERM from outside the run ended ranks",
        because="SIGTERM ended the first process to exit, and nothing had failed before",
        evidence=once_a_line(first),
        confidence=Confidence.HYPOTHESIS,
        standing=Standing.SYMPTOM,
        fixes=_FIXES,
    )


def _torn_down(seen: EvidenceSet, asked: Evidence[TerminationRequested]) -> bool:
    """Whether the rank's own launcher logged that it ended this rank, and why."""
    own = (e for e in seen.all(TerminationRequested) if e.fact.by in _OWN_TEARDOWN and e.fact.reason)
    return asked.who is not None and any(e.who == asked.who for e in own)


def _outlived(seen: EvidenceSet, asked: Evidence[Fact]) -> bool:
    """Whether the process finished, or still wrote long after: steps during the grace period prove nothing."""
    phases = seen.near(asked, PhaseSeen, after=TO_THE_END)
    if any(e.fact.phase is Phase.FINISHED for e in phases):
        return True
    key = asked.origin.writer
    ends = [e.at for e in seen.all(StreamEnded) if e.origin.writer == key and e.at is not None]
    return asked.at is not None and bool(ends) and max(ends) - asked.at > LONGEST_GRACE_S


def failed_before(seen: EvidenceSet, place: Evidence[Fact]) -> bool:
    """Whether anything that ends a run happened before this."""
    here = seen.position[id(place)]
    if stopped_before(seen, place.at) or given_up_before(seen, place):
        return True
    if any(e.fact.missing or e.fact.twice or e.fact.sizes for e in still_waiting(seen)):
        return True  # the ranks had not met
    ends = seen.once(ends_of)
    if not is_supervised(seen):
        gone = [e for e in (*ends.badly.values(), *ends.silent.values()) if e.who != place.who]
        if any(e.at is not None and place.at is not None and e.at < place.at for e in gone):
            return True

    def earlier(evidence: Evidence[Fact]) -> bool:
        if evidence.at is not None and place.at is not None:
            return evidence.at <= place.at
        return seen.position[id(evidence)] < here

    spared = is_supervised(seen) and not seen.bad_exits  # then the kernel killed processes of other programs
    for kind in _FAILURES:
        if kind is OomKilled and spared:
            continue
        if any(earlier(e) and not seen.survived(e) and getattr(e.fact, "fatal", True) for e in seen.all(kind)):
            return True
    if any(
        earlier(e)
        and not e.fact.logged
        and not is_wrapper(e.fact)
        and "SignalException" not in e.fact.type
        and e.fact.type != "KeyboardInterrupt"
        for e in seen.all(ExceptionRaised)
        if not seen.survived(e)
    ):
        return True
    return any(
        earlier(e) and (e.fact.code or e.fact.signal) and not ended_by(e.fact, "SIGTERM")
        for e in seen.all(ProcessExited)
    )
