# SPDX-License-Identifier: Apache-2.0
"""RES010: the memory of a rank grew step after step, as measured from outside."""

from __future__ import annotations

from keepstep.model.facts import HostAllocationFailed, LoaderWorkerDied, MemoryRose, OomKilled, ProcessExited
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    count,
    duration,
    ranks,
    ranks_of,
    rule,
    size,
)
from keepstep.rules.asking.process_endings import ended_by

EPOCHS = 2
"""After the first one, in which caches fill."""
ALONE = 0.1
"""The other ranks grew by at most this share of what this one did."""
WATCHED_S = 600.0
SOON_S, SOON_TIMES = 7200.0, 4.0
"""Memory will be full within this time, or within this many times the period of growth seen so far."""
KEEP_LESS = (
    Fix(do="keep numbers, not tensors with graphs", code="total += loss.item()   # or loss.detach()"),
    Fix(do="hold samples in arrays instead of Python objects, which workers copy"),
    Fix(do="compare live objects between steps", command="python -X tracemalloc SCRIPT"),
)


@rule(
    id="RES010",
    cause=Cause.RESOURCE_MEMORY_LEAK,
    needs=(MemoryRose,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.RESOURCE_HOST_OOM_KILLED, Cause.DATA_LOADER_WORKER_KILLED, Cause.SLOW_STRAGGLER),
)
def memory_rising(seen: EvidenceSet) -> Findings:
    """The memory of a rank's processes grows with every step.

    ## What it looks like
    Nothing shows until host memory is full. Then the kernel kills a process, or an allocation fails.

    ## Why it happens
    Losses that are kept with their graphs, unbounded lists and caches, datasets of Python objects, functions that are
    traced or compiled again and again.

    ## How we know
    `keepstep run` measures the memory of every rank, without file pages. Growth is reported if it was about the same in
    every part of a long stretch of steps, and if it also went on after the first epoch, or no other rank grew, or
    memory will soon be full.

    ## What to do
    Find out what is kept: compare object counts between two steps, and detach what is logged.

    ## When this is wrong
    A cache or replay buffer that fills on one rank only, or that is larger than the memory left, grows like this too.
    """
    rose = told_of(seen)
    if not rose:
        return
    ended = [each for each in rose if _ran_out(seen, each)]
    told = tuple(ended or rose)
    fact = max((each.fact for each in told), key=lambda each: each.now_bytes - each.began_bytes)
    yield Found(
        title=f"the memory of {ranks(ranks_of(told))} kept growing during training",
        because=_words(fact),
        evidence=told,
        severity=None if ended else Severity.WARNING,
        fixes=KEEP_LESS,
    )


def told_of(seen: EvidenceSet) -> list[Evidence[MemoryRose]]:
    """The ranks whose memory grew, as far as that matters."""
    return [each for each in seen.all(MemoryRose) if _ran_out(seen, each) or _matters(each.fact)]


def _matters(fact: MemoryRose) -> bool:
    """Whether it is more than a cache filling up."""
    if _is_alone(fact) or (fact.epochs_before >= 1 and fact.epochs >= EPOCHS):
        return True
    left = _left_s(fact)
    return left is not None and fact.seconds >= WATCHED_S and left < max(SOON_S, SOON_TIMES * fact.seconds)


def _is_alone(fact: MemoryRose) -> bool:
    return fact.others_bytes is not None and fact.others_bytes < ALONE * (fact.now_bytes - fact.began_bytes)


def _left_s(fact: MemoryRose) -> float | None:
    """How long the remaining memory will last."""
    if fact.left_bytes is None or fact.seconds <= 0:
        return None
    return fact.left_bytes * fact.seconds / max(1, fact.now_bytes - fact.began_bytes)


def _ran_out(seen: EvidenceSet, rose: Evidence[MemoryRose]) -> bool:
    """Whether the run ended for lack of memory: the kernel or the run says so, or SIGKILL came when little was left."""
    fact = rose.fact
    if any(seen.all(kind) for kind in (OomKilled, HostAllocationFailed)):
        return True
    if fact.left_bytes is None or fact.left_bytes > fact.now_bytes - fact.began_bytes:
        return False
    return bool(seen.all(LoaderWorkerDied)) or any(ended_by(each.fact, "SIGKILL") for each in seen.all(ProcessExited))


def _words(fact: MemoryRose) -> str:
    grew = fact.now_bytes - fact.began_bytes
    words = (
        f"it grew steadily from {size(fact.began_bytes)} to {size(fact.now_bytes)} "
        f"in {count(fact.steps, 'step')}, {size(grew / max(1, fact.steps))} per step"
    )
    if _is_alone(fact):
        return f"{words}, and no other rank's memory did"
    if fact.epochs_before >= 1 and fact.epochs >= EPOCHS:
        return f"{words}, and went on for {count(fact.epochs, 'epoch')} after the first"
    left = _left_s(fact)
    return f"{words}; the rest lasts {duration(left)} at this rate" if left is not None else words
