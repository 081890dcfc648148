# SPDX-License-Identifier: Apache-2.0
"""RES004: shared memory ran out."""

from __future__ import annotations

from keepstep.model.facts import (
    ExceptionRaised,
    Fact,
    FatalSignal,
    LimitReached,
    LoaderWorkerDied,
    ProcessExited,
    SharedMemoryExhausted,
)
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, ended_by, once_a_line, who

_SHARING = (
    "multiprocessing/heap.py",
    "multiprocessing/shared_memory.py",
    "multiprocessing/synchronize.py",
    "torch/multiprocessing/reductions.py",
)
"""Where Python creates files in /dev/shm; semaphores are files too."""
_FIXES = (
    Fix(do="check how large and how full it is", command="df -h /dev/shm"),
    Fix(do="give the container more shared memory", command="docker run --shm-size=16g IMAGE  # or --ipc=host"),
    Fix(do="in Kubernetes, mount a memory-backed volume at /dev/shm (emptyDir with medium: Memory)"),
    Fix(do="or use fewer loader workers, or none"),
)


@rule(
    id="RES004",
    cause=Cause.RESOURCE_SHM,
    needs=(SharedMemoryExhausted, LoaderWorkerDied, FatalSignal, ProcessExited, ExceptionRaised),
    explains=(
        *OF_A_DEAD_RANK,
        Cause.DATA_LOADER_WORKER_KILLED,
        Cause.RESOURCE_DISK_FULL,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.USER_NATIVE_CRASH,
    ),
)
def shm(seen: EvidenceSet) -> Findings:
    """Shared memory (`/dev/shm`) was too small for the data of ranks or loader workers.

    ## What it looks like
    NCCL's `Call to posix_fallocate failed : No space left on device` or `Error while creating shared memory
    segment`, `DataLoader worker is killed by signal: Bus error`, `Insufficient shared memory (shm)`,
    `unable to write to file </torch_...>`.

    ## Why it happens
    Containers get 64 MB of `/dev/shm` by default. NCCL puts its buffers there, and DataLoader workers their batches.
    Using a page that cannot be allocated raises SIGBUS.

    ## How we know
    The call that failed uses shared memory, or SIGBUS killed a process, which hardly anything else raises.

    ## What to do
    Give the container or pod more shared memory, or use less of it.

    ## When this is wrong
    `unable to open shared memory object` can also mean the limit on open files. A memory-mapped file that was truncated
    while in use raises SIGBUS too.
    """
    said = once_a_line(e for e in seen.all(SharedMemoryExhausted) if not seen.survived(e))
    bus: list[Evidence[Fact]] = [
        e for e in seen.all(LoaderWorkerDied) if e.fact.signal in ("Bus error", "SIGBUS") and not seen.survived(e)
    ]
    if said:
        path = next((e.fact.path for e in said if e.fact.path), None)
        only_opened = all("unable to open shared memory object" in e.quote for e in said)
        unsure = only_opened and bool(seen.all(LimitReached))
        yield Found(
            title=f"{who(said)} could not get shared memory{f' for {path}' if path else ''}",
            because="the data that ranks and loader workers share did not fit into /dev/shm",
            evidence=(*said, *bus),
            confidence=Confidence.SUPPORTED if unsure else None,
            standing=Standing.EXCEPTION if unsure else None,
            fixes=_FIXES,
        )
        return
    raised = tuple(e for e in seen.all(ExceptionRaised) if _in_sharing(e.fact) and not seen.survived(e))
    if raised:
        yield Found(
            title=f"{who(raised)} could not get shared memory",
            because="the call that found no space left was creating a file in /dev/shm",
            evidence=(*raised, *bus),
            fixes=_FIXES,
        )
        return
    if bus:
        yield Found(
            title=f"a data-loader worker of {who(tuple(bus))} died of a bus error, as happens when /dev/shm is full",
            because="SIGBUS means that a page of shared memory could not be allocated; little else raises it",
            evidence=tuple(bus),
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    crashed: list[Evidence[Fact]] = [e for e in seen.all(FatalSignal) if e.fact.signal == "SIGBUS"]
    crashed += [e for e in seen.all(ProcessExited) if ended_by(e.fact, "SIGBUS")]
    if crashed:
        yield Found(
            title=f"{who(tuple(crashed))} died of a bus error, as happens when /dev/shm is full",
            because="SIGBUS usually means that a page of shared memory could not be allocated",
            evidence=tuple(crashed),
            confidence=Confidence.HYPOTHESIS,
            standing=Standing.EXCEPTION,
            fixes=_FIXES,
        )


def _in_sharing(fact: ExceptionRaised) -> bool:
    """Whether space ran out where Python shares memory between processes."""
    inner = fact.frames[-1].file or "" if fact.frames else ""
    outer = fact.frames[0].file or "" if fact.frames else ""
    return "No space left on device" in fact.message and (inner.endswith(_SHARING) or outer.endswith(_SHARING))
