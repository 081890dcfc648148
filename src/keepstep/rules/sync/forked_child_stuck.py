# SPDX-License-Identifier: Apache-2.0
"""SYN062: a live rank waits for a child that it forked after its framework had started."""

from __future__ import annotations

from keepstep.base import wording
from keepstep.model.facts import ProcessSeen, StackDump
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, rule
from keepstep.rules.asking.process_endings import parent_of
from keepstep.signals.stacks import Whose, innermost_user, place, whose

_FORKED = lazy_pattern(r"multiprocessing/popen_fork\.py$")
_ACQUIRES = lazy_pattern(r"^(?:lock_PyThread_acquire_lock|rlock_acquire|acquire_timed|PyThread_acquire_lock)")


@rule(
    id="SYN062",
    cause=Cause.SYNC_MULTIPLE_THREADS_OR_FORK,
    needs=(ProcessSeen,),
    confidence=Confidence.SUPPORTED,
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, Cause.SLOW_INPUT_BOUND),
)
def forked_child_stuck(seen: EvidenceSet) -> Findings:
    """A live rank waits for a child process that it forked and that is stuck inside the framework.

    ## What it looks like
    The job prints nothing more. One rank waits for the result of a pool or loader; its child is in an
    operation of TensorFlow, PyTorch or JAX, or waits for a lock. The other ranks wait in a collective.

    ## Why it happens
    A forked child has a copy of the framework's locks and queues, but none of its threads. The work that the
    operation hands to those threads is never done.

    ## How we know
    The child's stack begins at the fork (`popen_fork.py`) and ends in the framework or in a lock, and the rank did
    not wake up while we watched it.

    ## What to do
    Start child processes with `spawn` or `forkserver`, or before the framework is used; do not call the framework
    in them.

    ## When this is wrong
    The operation in the child is only slow; then the child uses CPU time.
    """
    still = {e.fact.pid: e for e in seen.all(ProcessSeen) if e.fact.still and (e.fact.switches or 0) <= 2}
    for child in seen.all(StackDump):
        pid = parent_of(child)
        parent = still.get(pid) if pid is not None else None
        if parent is not None and (_forked_into_framework(child) or _forked_with_lock(child)):
            yield _found(parent, child)
            return


def _forked_into_framework(child: Evidence[StackDump]) -> bool:
    frames = child.fact.frames
    return bool(frames) and whose(frames[0]) is Whose.FRAMEWORK and any(_FORKED.search(f.file or "") for f in frames)


def _forked_with_lock(child: Evidence[StackDump]) -> bool:
    """Whether it waits for a lock: its copy is held by a thread that exists only in the parent."""
    frames = child.fact.frames
    return any(_FORKED.search(f.file or "") for f in frames) and any(
        _ACQUIRES.match(f.function) for f in frames if f.is_native
    )


def _found(parent: Evidence[ProcessSeen], child: Evidence[StackDump]) -> Found:
    who = wording.ranks([parent.who]) if parent.who is not None else f"pid {parent.fact.pid}"
    line = innermost_user(child.fact.frames) or child.fact.frames[0]
    held = "waits for a lock that a thread of its parent held"
    doing = held if _forked_with_lock(child) else f"is in {place(child.fact.frames[0])}"
    return Found(
        title=f"{who} forked a child after its framework had started; the child is stuck at {place(line)}",
        because=f"the child {doing}, but has none of its parent's threads; {who} waits for it",
        evidence=(child, parent),
        ranks=(parent.who,) if parent.who is not None else (),
        fixes=(
            Fix(do="start child processes with spawn", code="multiprocessing.get_context('spawn').Pool(...)"),
            Fix(do="or create the pool before importing the framework, and do not call the framework in the children"),
        ),
    )
