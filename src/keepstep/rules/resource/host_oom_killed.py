# SPDX-License-Identifier: Apache-2.0
"""RES002: the host ran out of memory."""

from __future__ import annotations

from dataclasses import replace

from keepstep.model.facts import (
    AllocationAbsurd,
    ExceptionRaised,
    Fact,
    HostAllocationFailed,
    LoaderWorkerDied,
    OomKilled,
    ProcessExited,
    RankRaised,
    SharedMemoryExhausted,
)
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Standing,
    ranks,
    ranks_of,
    rule,
)
from keepstep.rules.asking.memory_advice import smaller_batch
from keepstep.rules.asking.process_endings import (
    OF_A_DEAD_RANK,
    ended_badly,
    ended_by,
    of_another,
    once_a_line,
    rank_of_pid,
    who,
)

_FIXES = (
    Fix(
        do="confirm it in the kernel log of the node", command="dmesg -T | grep -iE 'oom|out of memory|killed process'"
    ),
    Fix(do="check the memory limit of the container or job", command="cat /sys/fs/cgroup/memory.max"),
    Fix(do="use fewer loader workers and less prefetching, and memory-map data instead of copying it"),
    Fix(
        do="request more memory (`--mem` in Slurm, `resources.limits.memory` in Kubernetes)", safety=Safety.NEEDS_OWNER
    ),
)


@rule(
    id="RES002",
    cause=Cause.RESOURCE_HOST_OOM_KILLED,
    needs=(OomKilled, HostAllocationFailed, LoaderWorkerDied),
    explains=(
        *OF_A_DEAD_RANK,
        Cause.DATA_LOADER_WORKER_KILLED,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.USER_NATIVE_CRASH,
        Cause.PREEMPTION_SIGTERM,
    ),
)
def host_oom_killed(seen: EvidenceSet) -> Findings:
    """The host ran out of memory: a process was killed, or an allocation failed.

    ## What it looks like
    `Out of memory: Killed process 4711 (python)` in the kernel log, `oom-kill event` from Slurm, `OOMKilled` from
    Kubernetes, `DataLoader worker (pid 7) is killed by signal: Killed`, `std::bad_alloc`, `MemoryError`,
    `DefaultCPUAllocator: can't allocate memory`. Other ranks see a reset connection.

    ## Why it happens
    Every rank and every loader worker holds its own copy of the dataset or model; the container's or job's
    limit is below what the node has; or memory leaks.

    ## How we know
    The kernel, the scheduler or the allocator says so. A loader worker that got SIGKILL was nearly always killed by the
    kernel: a hypothesis. If several processes share the host and one of their workers vanished, it is supported.

    ## What to do
    Use less memory per process, start fewer processes, or raise the limit.

    ## When this is wrong
    SIGKILL can come from a person or a scheduler; the kernel log of the node settles it.
    """
    killed = once_a_line(seen.all(OomKilled))
    ours = tuple(e for e in killed if not of_another(seen, e))
    if ours:
        yield _killed(seen, ours)
        return
    if killed and ended_badly(seen):
        yield replace(_killed(seen, killed), standing=Standing.SYMPTOM, confidence=Confidence.SUPPORTED)
    failed = once_a_line(
        e
        for e in seen.all(HostAllocationFailed)
        if not seen.survived(e) and _ended(seen, e) and not seen.near(e, AllocationAbsurd, before=3)
    )
    if failed:
        asked = next((e.fact.requested for e in failed if e.fact.requested), None)
        yield Found(
            title=f"{who(failed)} could not allocate host memory{f' ({asked})' if asked else ''}",
            because="an allocation of host memory failed: the host, or its memory limit, was exhausted",
            evidence=failed,
            fixes=(*_FIXES[:2], *smaller_batch(seen), *_FIXES[2:]) if _in_a_step(seen) else _FIXES,
        )
        return
    shm = seen.all(SharedMemoryExhausted)
    workers = once_a_line(
        e for e in seen.all(LoaderWorkerDied) if e.fact.signal in ("Killed", "SIGKILL") and not seen.survived(e)
    )
    lost = once_a_line(e for e in seen.all(LoaderWorkerDied) if e.fact.signal is None and not seen.survived(e))
    if lost and not workers and not shm and _several_share_the_host(seen):
        yield Found(
            title=f"a data-loader worker of {who(lost)} vanished; most likely, host memory ran out",
            because="each process on this host has its own loader workers, and one of them ended without a message",
            evidence=lost,
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )
        return
    if workers and not shm:
        yield Found(
            title=f"a data-loader worker of {who(workers)} was killed; most likely, host memory ran out",
            because="the kernel sends SIGKILL when host memory runs out, and nothing shows another sender",
            evidence=workers,
            confidence=Confidence.HYPOTHESIS,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )


def _in_a_step(seen: EvidenceSet) -> bool:
    return any(e.fact.batch for e in seen.all(RankRaised))


def _several_share_the_host(seen: EvidenceSet) -> bool:
    """Whether one process per device was spawned on a host: each multiplies the loader workers."""
    spawners = ("torch_xla", "spawn", "torch.multiprocessing")
    return any((e.who or 0) > 0 for e in seen.all(ProcessExited) if e.fact.reporter in spawners)


def _ended(seen: EvidenceSet, evidence: Evidence[Fact]) -> bool:
    """Whether the message belongs to an error and not to a logged warning."""
    near = seen.near(evidence, ExceptionRaised, before=400, after=2)
    return not near or any(not e.fact.logged for e in near) or seen.broken


def _killed(seen: EvidenceSet, killed: tuple[Evidence[OomKilled], ...]) -> Found:
    by_pid = [r for e in killed if (r := rank_of_pid(seen, e.fact.pid)) is not None]
    dead = [e for e in seen.all(ProcessExited) if ended_by(e.fact, "SIGKILL")]
    blamed = tuple(dict.fromkeys((*by_pid, *ranks_of(killed)))) or ranks_of(tuple(dead[:1]))
    by = killed[0].fact.by
    return Found(
        title=f"{by} killed {ranks(blamed) if blamed else 'a process'} because host memory ran out",
        because=f"{by} says that it ended {killed[0].fact.process or 'a process'} because memory ran out",
        evidence=(*killed, *dead),
        ranks=blamed,
        fixes=_FIXES,
    )
