# SPDX-License-Identifier: Apache-2.0
"""RES002: the host's memory ran out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.process import ExceptionRaised, ProcessExited
from keepstep.core.facts.resource import (
    AllocationAbsurd,
    HostAllocationFailed,
    LoaderWorkerDied,
    OomKilled,
    SharedMemoryExhausted,
)
from keepstep.core.finding import Confidence, Fix, Found, Safety, Standing, ranks_of
from keepstep.core.rule import rule
from keepstep.core.wording import ranks
from keepstep.rules.resource.lookup import (
    OF_A_DEAD_RANK,
    ended_badly,
    ended_by,
    of_another,
    once_a_line,
    rank_of_pid,
)

_FIXES = (
    Fix(
        do="confirm it in the kernel log of the node",
        command="dmesg -T | grep -iE 'oom|out of memory|killed process'",
    ),
    Fix(do="see the memory limit of the container or job", command="cat /sys/fs/cgroup/memory.max"),
    Fix(do="use fewer loader workers, less prefetching, and memory-map data instead of copying it"),
    Fix(
        do="ask the scheduler for more memory (`--mem` of Slurm, `resources.limits.memory` of Kubernetes)",
        safety=Safety.NEEDS_OWNER,
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
def host_oom_killed(seen: EvidenceSet) -> Iterator[Found]:
    """The host's memory ran out: a process was killed for it, or an allocation failed.

    ## What it looks like
    `Out of memory: Killed process 4711 (python)` in the kernel log, `oom-kill event` of Slurm, `OOMKilled` of
    Kubernetes, `DataLoader worker (pid 7) is killed by signal: Killed`, `std::bad_alloc`, `MemoryError`,
    `DefaultCPUAllocator: can't allocate memory`. Other ranks see a reset connection.

    ## Why it happens
    Every rank and every loader worker holds its own copy of the dataset or model; the container's or job's
    limit is below what the node has; or memory leaks.

    ## How we know
    The killer says so, or the allocator does. A loader worker that got SIGKILL was, nearly always, the
    kernel's choice; that is inferred, and said so.

    ## What to do
    Hold less per process, start fewer processes, or raise the limit.

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
            title=f"{_name(ranks_of(failed))} could not get host memory{f' ({asked})' if asked else ''}",
            because="an allocation of host memory failed: the host or its limit had no more to give",
            evidence=failed,
            fixes=_FIXES,
        )
        return
    shm = seen.all(SharedMemoryExhausted)
    workers = once_a_line(
        e for e in seen.all(LoaderWorkerDied) if e.fact.signal in ("Killed", "SIGKILL") and not seen.survived(e)
    )
    lost = once_a_line(e for e in seen.all(LoaderWorkerDied) if e.fact.signal is None and not seen.survived(e))
    if lost and not workers and not shm and _several_share_the_host(seen):
        yield Found(
            title=f"a data-loader worker of {_name(ranks_of(lost))} vanished, most likely killed for host memory",
            because="every device's process of this host has loader workers of its own, and one was gone without a word",
            evidence=lost,
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )
        return
    if workers and not shm:
        yield Found(
            title=f"a data-loader worker of {_name(ranks_of(workers))} was killed, most likely for host memory",
            because="the kernel ends processes by SIGKILL when host memory runs out; no other sender is seen",
            evidence=workers,
            confidence=Confidence.HYPOTHESIS,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )


def _several_share_the_host(seen: EvidenceSet) -> bool:
    """Whether processes were spawned for the devices of one host: each multiplies the loader's workers."""
    spawned = {
        e.who for e in seen.all(ProcessExited) if e.fact.reporter in ("torch_xla", "spawn", "torch.multiprocessing")
    }
    return any(who is not None and who > 0 for who in spawned)


def _ended(seen: EvidenceSet, evidence: Evidence[Fact]) -> bool:
    """Whether the words belong to an error and not to a warning that was logged."""
    near = seen.near(evidence, ExceptionRaised, before=400, after=2)
    return not near or any(not e.fact.logged for e in near) or seen.broken


def _killed(seen: EvidenceSet, killed: tuple[Evidence[OomKilled], ...]) -> Found:
    by_pid = [r for e in killed if (r := rank_of_pid(seen, e.fact.pid)) is not None]
    dead = [e for e in seen.all(ProcessExited) if ended_by(e.fact, "SIGKILL")]
    blamed = tuple(dict.fromkeys((*by_pid, *ranks_of(killed)))) or ranks_of(tuple(dead[:1]))
    by = killed[0].fact.by
    return Found(
        title=f"{_name(blamed)} {'were' if len(set(blamed)) > 1 else 'was'} killed for host memory by {by}",
        because=f"{by} ended {killed[0].fact.process or 'a process'} because memory ran out",
        evidence=(*killed, *dead),
        ranks=blamed,
        fixes=_FIXES,
    )


def _name(blamed: tuple[int, ...]) -> str:
    return ranks(blamed) if blamed else "a process"
