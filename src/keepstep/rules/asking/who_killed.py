# SPDX-License-Identifier: Apache-2.0
"""A process that SIGKILL ended first: signs of a lack of memory, and where to find out who sent it."""

from __future__ import annotations

from keepstep.model.facts import (
    CollectiveTimeout,
    Fact,
    FatalSignal,
    GroupShutDown,
    HostAllocationFailed,
    MemberRestarted,
    MemoryGrew,
    MemoryLow,
    MemoryRead,
    NativeAbort,
    OomKilled,
    ParameterServerLost,
    PeerLost,
    Preempted,
    ProcessExited,
    RankDoing,
    RankEnded,
    RanksMissing,
    RendezvousTimeout,
    StepSeen,
    StreamEnded,
)
from keepstep.rules.api import Evidence, EvidenceSet, Fix, ranks, ranks_of
from keepstep.rules.asking.process_endings import ended_by, once_a_line
from keepstep.rules.asking.timelines import LOADING, work_in
from keepstep.signals.own_words import own_words
from keepstep.story.first_rank import first_exits
from keepstep.story.rank_endings import given_up_before, is_supervised, stopped_before
from keepstep.story.who_is_who import rank_of_exit

HOW_PODS_ENDED = (
    "kubectl get pods -o custom-columns='POD:.metadata.name,"
    "ENDED:.status.containerStatuses[*].lastState.terminated.reason,"
    "STATUS:.status.containerStatuses[*].lastState.terminated.exitCode'"
)
WHO_KILLED = (
    Fix(
        do="look for the kernel's out-of-memory killer on that host",
        command="dmesg -T | grep -iE 'oom|out of memory|killed process|segfault'",
    ),
    Fix(
        do="under Slurm, check how your jobs and their steps ended",
        command="sacct -u $USER -o JobID,State,ExitCode,MaxRSS",
    ),
    Fix(do="in Kubernetes, check how the pods' containers ended", command=HOW_PODS_ENDED),
)
_LOSSES: tuple[type[Fact], ...] = (PeerLost, RanksMissing, GroupShutDown)
_WAITS: tuple[type[Fact], ...] = (CollectiveTimeout, RendezvousTimeout)
_OTHER_STORIES: tuple[type[Fact], ...] = (ParameterServerLost, MemberRestarted)
_TELLING: tuple[type[Fact], ...] = (OomKilled, HostAllocationFailed, Preempted)
_CRASHES: tuple[type[Fact], ...] = (FatalSignal, NativeAbort)
_TRAINED: tuple[type[Fact], ...] = (RankDoing, RankEnded, StepSeen)
_READINGS: tuple[type[Fact], ...] = (MemoryLow, MemoryRead, MemoryGrew)


def killed_first(seen: EvidenceSet) -> tuple[Evidence[ProcessExited], ...]:
    """The processes that SIGKILL ended before anything else failed, if nothing says why.

    Libraries crash in ranks that lose another one: no reason where a launcher saw the killed one end first.
    """
    exits = [e for e in seen.all(ProcessExited) if e.fact.code or e.fact.signal]
    first = [e for e in first_exits(seen) if e.fact.code or e.fact.signal]
    killed = [e for e in (first or exits) if ended_by(e.fact, "SIGKILL")]
    before = ranks_of(tuple(killed)) if first else ()
    crashes = [e for kind in _CRASHES for e in seen.all(kind) if not before or e.who is None or e.who in before]
    if crashes or any(seen.all(kind) for kind in _TELLING):
        return ()
    own = [
        e
        for e in exits
        if not ended_by(e.fact, "SIGKILL")
        and not ended_by(e.fact, "SIGTERM")
        and not (e.fact.code == 1 and _wrapper(e.fact))
    ]
    if not killed or (own and not first) or _ends_the_rest(seen.all(ProcessExited)):
        return ()
    if stopped_before(seen, killed[0].at) or given_up_before(seen, killed[0]):
        return ()
    return once_a_line(killed)


def who_was(seen: EvidenceSet, killed: tuple[Evidence[ProcessExited], ...]) -> tuple[tuple[int, ...], str]:
    """The killed ranks, and the beginning of a title: ``rank 1 was``, ``ranks 1 and 2 were``, ``a process was``."""
    blamed = ranks_of(killed) or tuple(rank for e in killed if (rank := rank_of_exit(seen, e)) is not None)
    return blamed, f"{ranks(blamed) if blamed else 'a process'} {'were' if len(set(blamed)) > 1 else 'was'}"


def memory_around(seen: EvidenceSet) -> tuple[tuple[Evidence[Fact], ...], str] | None:
    """Signs of a lack of memory, and how to word them. In a run that keepstep watched, only readings count.

    In a log alone the moment counts too: models and data are loaded before the first step, and use up memory.
    """
    readings = tuple(e for kind in _READINGS for e in seen.all(kind))
    if readings:
        return readings[-2:], "the memory readings of the run point to a shortage"
    if is_supervised(seen):
        return None
    last = [word for end in seen.all(StreamEnded) for word in own_words(end.fact)[:1]]
    if last and all(work_in(word) == LOADING for word in last):
        return (), "it was loading a model or checkpoint, when memory usually runs out"
    if any(seen.all(kind) for kind in _TRAINED):
        return None
    return (), "it was still loading models and data before the first step, when memory usually runs out"


def only_missed(seen: EvidenceSet, killed: Evidence[ProcessExited]) -> bool:
    """Whether the other ranks only show that they lost it: then it ended first, whatever sent the signal.

    A wait that ended after it was a wait for the killed process.
    """
    here = seen.position[id(killed)]
    if any(seen.all(kind) for kind in _OTHER_STORIES):
        return False
    if any(seen.position[id(e)] < here for kind in _WAITS for e in seen.all(kind)):
        return False
    return any(any(not seen.survived(e) for e in seen.all(kind)) for kind in _LOSSES)


def _ends_the_rest(exits: tuple[Evidence[ProcessExited], ...]) -> bool:
    """Whether srun reported a task that ended by itself before those that were killed: then srun killed them."""
    tasks = [e.fact for e in exits if e.fact.reporter == "srun"]
    return (
        bool(tasks)
        and len(tasks) == len(exits)
        and not ended_by(tasks[0], "SIGKILL")
        and len({t.rank for t in tasks}) > 1
    )


def _wrapper(fact: ProcessExited) -> bool:
    """Launchers and shells exit with status 1 themselves when a child was killed."""
    return fact.reporter in ("subprocess", "container", "Kubernetes", "shell", "mpirun", "srun")
