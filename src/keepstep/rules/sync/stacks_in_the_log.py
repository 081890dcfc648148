# SPDX-License-Identifier: Apache-2.0
"""SYN065: stacks in a log, taken from a job that hung."""

from __future__ import annotations

from keepstep.model.facts import StackDump
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.sync._stacks_in_the_log import Process, of_a_crash, processes
from keepstep.rules.sync._waiting import was
from keepstep.signals.stacks import innermost_user, place
from keepstep.signals.waits import WaitKind, awaits_others


@rule(
    id="SYN065",
    cause=Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    needs=(StackDump,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.SUPPORTED,
)
def stacks_in_the_log(seen: EvidenceSet) -> Findings:
    """Stacks in the log show that processes wait for each other.

    ## What it looks like
    The output of `py-spy dump`, or of Python's `faulthandler` after a timeout: `Thread 1234 (idle): "MainThread"`, and
    below it `all_reduce (torch/distributed/distributed_c10d.py:3252)`.

    ## Why it happens
    A collective, a barrier or the start of a group ends only when every rank has joined. One rank that is
    elsewhere holds up all the others.

    ## How we know
    The main thread is in such a call. Where the log has stacks of several ranks, we name the rank that is elsewhere.

    ## What to do
    Take the stacks of all ranks at the same moment, and look at the one that differs.

    ## When this is wrong
    A healthy rank is in a collective for a moment of every step. Two dumps a few seconds apart show the difference.
    """
    if of_a_crash(seen):
        return
    shown = processes(seen)
    waiting = [p for p in shown if awaits_others(p.wait) and not seen.survived(p.shown)]
    # a device that never finishes is in a collective, or stuck itself
    waiting = waiting or [
        p for p in shown if p.wait is not None and p.wait.kind is WaitKind.DEVICE and not seen.survived(p.shown)
    ]
    if not waiting:
        return
    others = [p for p in shown if p.main is not None and p not in waiting and not awaits_others(p.wait)]
    ranks = tuple(p.rank for p in others if p.rank is not None)
    first = min(waiting, key=lambda p: p.wait is not None and p.wait.vague)
    where = _where(first)
    sure = any(p.wait is not None and awaits_others(p.wait) and not p.wait.vague for p in waiting)
    yield Found(
        title=f"{first.name} waited for other ranks in {where}"
        + (f"; {say_ranks(ranks)} {was(ranks)} {_elsewhere(others)}" if ranks else ""),
        because="its stack, taken while it was alive, ends in a call that returns only when every rank has made it",
        evidence=tuple(p.shown for p in (*others, *waiting))[:8],
        ranks=ranks if 1 <= len(ranks) <= 2 else (),
        confidence=None if sure else Confidence.HYPOTHESIS,
        fixes=(
            Fix(
                do="take the stacks of all ranks at once and look for the one that differs",
                command="py-spy dump --pid PID",
            ),
            Fix(
                do="or have PyTorch record what each rank ran last", command="export TORCH_NCCL_TRACE_BUFFER_SIZE=2000"
            ),
        ),
    )


def _where(process: Process) -> str:
    user = innermost_user(process.shown.fact.frames)
    name = process.wait.name if process.wait is not None else "a collective"
    return f"{name} at {place(user)}" if user is not None else name


def _elsewhere(others: list[Process]) -> str:
    """Where they were, if all were at one line."""
    lines = {place(user) for p in others if (user := innermost_user(p.shown.fact.frames)) is not None}
    return f"in {lines.pop()}" if len(lines) == 1 else "elsewhere"
