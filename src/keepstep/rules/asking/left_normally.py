# SPDX-License-Identifier: Apache-2.0
"""Which ranks were done: those that left with status 0, and those that were on their way out when they lost them."""

from __future__ import annotations

from keepstep.model.facts import Fact, FatalSignal, Phase, PhaseSeen, ProcessExited, StackDump, StreamEnded
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern
from keepstep.rules.asking.timelines import says_done
from keepstep.story.rank_endings import ends_of

Finished = dict[int, Evidence[Fact]]
_LAST_SAVE = lazy_pattern(r"(?i)\bfinal\b")
_AT_THE_EXIT = lazy_pattern(r"/(?:threading|atexit|concurrent/futures/thread|multiprocessing/util)\.py$")
_EXIT_CALLS = ("_shutdown", "_run_exitfuncs", "_exit_function", "_python_exit")


def finished_well(seen: EvidenceSet) -> Finished:
    """The ranks that ended with status 0, by their own goodbye or their launcher, and reported no trouble."""
    found: Finished = {rank: e for rank, e in seen.once(ends_of).well.items() if rank is not None and e.fact.goodbye}
    for e in seen.all(ProcessExited):
        if e.fact.code == 0 and e.fact.signal is None and e.who is not None:
            found.setdefault(e.who, e)
    for rank, said in says_done(seen).items():
        found.setdefault(rank, said)
    return {rank: e for rank, e in found.items() if not any(bad.who == rank for bad in seen.bad_exits)}


def was_done_too(seen: EvidenceSet, rank: int) -> bool:
    """Whether a rank that failed afterwards had made its last save, said so, or was in Python's own exit."""
    phases = [e for e in seen.all(PhaseSeen) if e.who == rank]
    if any(
        e.fact.phase is Phase.FINISHED or (e.fact.phase is Phase.SAVING and _LAST_SAVE.search(e.quote)) for e in phases
    ):
        return True
    if any(e.who == rank and e.fact.finished for e in seen.all(StreamEnded)):
        return True
    stacks = [e.fact.frames for e in seen.all(FatalSignal) if e.who == rank]
    stacks += [e.fact.frames for e in seen.all(StackDump) if e.who == rank]
    return any(
        frame.function in _EXIT_CALLS and _AT_THE_EXIT.search(frame.file or "") for frames in stacks for frame in frames
    )
