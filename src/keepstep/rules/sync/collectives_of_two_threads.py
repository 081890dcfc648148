# SPDX-License-Identifier: Apache-2.0
"""SYN066: two threads of one process are in collectives at the same time."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, StackDump, rule
from keepstep.rules.sync._stacks_in_the_log import of_a_crash, processes
from keepstep.signals.waits import WaitKind, waits_in


@rule(
    id="SYN066",
    cause=Cause.SYNC_MULTIPLE_THREADS_OR_FORK,
    needs=(StackDump,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def collectives_of_two_threads(seen: EvidenceSet) -> Findings:
    """Two threads of one process are in collectives at the same time.

    ## What it looks like
    Stacks of one process, from `py-spy dump` or `faulthandler`, in which `MainThread` is in `barrier` and another
    thread, which saves a checkpoint or evaluates, is in `all_gather`.

    ## Why it happens
    The order in which two threads reach a process group is not the same on every rank. One rank runs the
    barrier first, another the gather: both wait forever.

    ## How we know
    More than one thread of the process has a collective on its stack.

    ## What to do
    Give the second thread a process group of its own, or run all collectives on one thread.

    ## When this is wrong
    The threads already use different groups, and wait for a rank that is late.
    """
    if of_a_crash(seen):
        return
    for process in processes(seen):
        inside = [
            e
            for e in process.threads
            if (w := waits_in(e.fact.frames)) is not None and w.kind is WaitKind.COLLECTIVE and not w.vague
        ]
        if len(inside) < 2 or seen.survived(inside[0]):
            continue
        names = [(w.name if (w := waits_in(e.fact.frames)) else "") for e in inside[:2]]
        yield Found(
            title=f"two threads of {process.name} ran collectives at once: {names[0]} and {names[1]}",
            because="nothing gives the collectives of two threads the same order on every rank",
            evidence=tuple(inside[:4]),
            ranks=(process.rank,) if process.rank is not None else (),
            fixes=(
                Fix(
                    do="give the second thread its own process group",
                    code="torch.distributed.new_group(backend='gloo')",
                ),
                Fix(do="or wait for that thread before the main thread's next collective"),
            ),
        )
        return
