# SPDX-License-Identifier: Apache-2.0
"""SYN004: a process was forked, or used from several threads, where the library forbids it."""

from __future__ import annotations

from keepstep.model.facts import CollectiveTimeout, ExceptionRaised, Fact, FatalSignal, ForkOrThread
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    rule,
)

START_METHOD = "start method"
_WAIT = lazy_pattern(r"^(?:wait|acquire|join|_wait_for_tstate_lock|get|poll|recv|select|_try_get_data|_get_data)$")


@rule(
    id="SYN004",
    cause=Cause.SYNC_MULTIPLE_THREADS_OR_FORK,
    needs=(ForkOrThread,),
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.USER_NATIVE_CRASH,
    ),
)
def multiple_threads_or_fork(seen: EvidenceSet) -> Findings:
    """A process was forked after its library had started, or the library was used from several threads at once.

    ## What it looks like
    `Cannot re-initialize CUDA in forked subprocess`, `os.fork() is incompatible with multithreaded code`,
    complaints about calls from several threads.

    ## Why it happens
    CUDA, JAX, gRPC and most collective libraries keep threads and locks that a forked child does not
    have. The first use in the child fails, or hangs forever.

    ## How we know
    The library refused; or it warned, and the run then hung or crashed.

    ## What to do
    Start child processes with `spawn` or `forkserver`, and touch the device only in the child.

    ## When this is wrong
    A warning alone is harmless in most runs; it counts only where the run then hung or crashed.
    """
    refused = [e for e in seen.all(ForkOrThread) if not seen.survived(e) and (e.fact.fatal or _raised(seen, e))]
    warned = [e for e in seen.all(ForkOrThread) if not e.fact.fatal and not seen.survived(e)]
    interrupted: tuple[Evidence[Fact], ...] = _interrupted(seen)
    fixes = (
        Fix(do="start child processes with spawn", code="torch.multiprocessing.set_start_method('spawn', force=True)"),
        Fix(
            do="do not use the device in data loader workers; to confirm, run without workers",
            code="DataLoader(..., num_workers=0)",
        ),
    )
    if refused:
        by_start_method = refused[0].fact.what == START_METHOD
        yield Found(
            title="multiprocessing refused a start method or a child process"
            if by_start_method
            else f"{refused[0].fact.what}, which the library refused",
            because="the start method was already set, or the parent is a daemonic process"
            if by_start_method
            else "the library had started before the fork, or was called from several threads",
            evidence=tuple(refused),
            fixes=fixes,
        )
    elif warned and (crashed := _crashed(seen)):
        yield Found(
            title=f"{warned[0].fact.what}, and a process crashed later",
            because="the library warned that a fork may corrupt its memory, and a process then crashed in native code",
            evidence=(*warned, *crashed[:1]),
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM,
            fixes=fixes,
        )
    elif warned and (hung := interrupted[:1] or seen.all(CollectiveTimeout)[:2]):
        yield Found(
            title=f"{warned[0].fact.what}, and the run hung {'until it was interrupted' if interrupted else 'later'}",
            because="the library warned that this may deadlock, and nothing else explains the hang",
            evidence=(*warned, *hung),
            ranks=(),
            confidence=Confidence.HYPOTHESIS,
            standing=Standing.SYMPTOM,
            fixes=fixes,
        )


def _raised(seen: EvidenceSet, evidence: Evidence[ForkOrThread]) -> bool:
    """Whether the message belongs to an exception that ended the process: a start method that was refused."""
    return evidence.fact.what == START_METHOD and any(
        not e.fact.logged and not seen.survived(e) for e in seen.near(evidence, ExceptionRaised, before=60, after=1)
    )


def _interrupted(seen: EvidenceSet) -> tuple[Evidence[ExceptionRaised], ...]:
    """Interrupts (Ctrl-C) of a process that was waiting."""
    return tuple(
        e
        for e in seen.all(ExceptionRaised)
        if e.fact.type.endswith("KeyboardInterrupt") and any(_WAIT.match(f.function) for f in e.fact.frames)
    )


def _crashed(seen: EvidenceSet) -> tuple[Evidence[FatalSignal], ...]:
    """Crashes of a process whose memory a fork may have corrupted."""
    if not any(e.fact.what == "fork after MPI started" for e in seen.all(ForkOrThread)):
        return ()
    return tuple(e for e in seen.all(FatalSignal) if e.fact.signal in ("SIGSEGV", "SIGBUS", "SIGABRT"))
