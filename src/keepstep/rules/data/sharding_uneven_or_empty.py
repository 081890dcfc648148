# SPDX-License-Identifier: Apache-2.0
"""DAT004: ranks got different amounts of data, or one got none."""

from __future__ import annotations

from keepstep.model.facts import (
    CollectiveTimeout,
    EndOfData,
    ExceptionRaised,
    Fact,
    FatalSignal,
    GroupShutDown,
    NativeAbort,
    Phase,
    PhaseSeen,
    ProcessExited,
    RanksMissing,
    StepSeen,
    StreamEnded,
    TracebackCut,
    UnevenShards,
)
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
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.exceptions import is_of_peers, short_type
from keepstep.rules.asking.fallout import FALLOUT, lasting, others_stopped, who

_FIXES = (
    Fix(do="give every rank the same number of batches", code="drop_last=True  # or DistributedSampler"),
    Fix(do="or let early ranks wait for late ones", code="with Join([model]): ...  # torch; hvd.join() for Horovod"),
    Fix(do="or fix the number of steps on all ranks", code="ds = ds.repeat(); model.fit(..., steps_per_epoch=N)"),
)

_SHARES_OUT = lazy_pattern(
    r"^(?:_?split_(?:shards?|by_(?:node|worker)|between_processes|dataset_by_node)\w*|_?shard_(?:workers|by_\w+|paths|files)|"
    r"_?(?:assign|distribute|partition)_(?:shards|files|chunks)\w*|_?associate_chunks\w*)$"
)
"""Functions in data libraries that give each rank and worker its part of the data."""
_FOUND_NOTHING = {"IndexError", "ZeroDivisionError"}
_BY_NO_BATCHES = lazy_pattern(r"(?:/|//|%) *(?:float\(|int\()?len\((?:self\.)?\w*(?:loader|sampler|batches)\w*\)")
"""A division by the number of batches."""


@rule(
    id="DAT004",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(UnevenShards, GroupShutDown, CollectiveTimeout, RanksMissing, EndOfData, ExceptionRaised),
    explains=(*FALLOUT, Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE, Cause.SYNC_COLLECTIVE_MISMATCH),
)
def sharding_uneven_or_empty(seen: EvidenceSet) -> Findings:
    """Ranks got different amounts of data, so one was done while the others waited for it.

    ## What it looks like
    One rank finishes its epoch or its run normally, and the others fail in the next collective (`Horovod has been shut
    down`, a time-out, a lost peer). Or a library says at once that a rank's shard is empty, or that there are fewer
    files than workers.

    ## Why it happens
    Files or samples cannot be divided evenly among the ranks, filters drop different samples on each rank, or the
    number of steps is taken from the local length of the data.

    ## How we know
    A library says so; or a rank divided by its number of batches, which was 0; or one rank finished, or ran out of
    data, while others were still training; or the ranks print different numbers of steps for one epoch.

    ## What to do
    Give all ranks the same number of batches: drop or pad the remainder, repeat the dataset with a fixed number of
    steps, or use a join that lets early ranks wait.

    ## When this is wrong
    A rank that decides by itself to stop early looks the same. Where the log says so, that is reported instead.
    """
    said = lasting(seen, UnevenShards)
    if said:
        detail = next((e.fact.detail for e in said if e.fact.detail), None)
        yield Found(
            title=f"{who(said)} got too little or no data" + (f": {detail}" if detail else ""),
            because="the ranks have unequal shares of the data, and the library refused to go on",
            evidence=said,
            fixes=_FIXES,
        )
        return
    empty = tuple(e for e in seen.all(ExceptionRaised) if _nothing_to_share(e.fact) and not seen.survived(e))
    if empty:
        divided = _divides_by_no_batches(empty[0].fact)
        yield Found(
            title=f"{who(empty)} had no batches at all"
            if divided
            else f"{who(empty)} had too few shards or samples to divide among the workers",
            because="it divided by its number of batches, which is 0"
            if divided
            else "it failed in the function that gives every rank and worker its part of the data",
            evidence=empty,
            confidence=Confidence.SUPPORTED,
            fixes=_FIXES,
        )
        return
    yield from _done_first(seen)


def _done_first(seen: EvidenceSet) -> Findings:
    """A rank that was done while the others waited for it, by its own messages, its silence, or its number of steps."""
    waiting = others_stopped(seen)
    if not waiting or any(e.fact.phase is Phase.STOPPING_EARLY for e in seen.all(PhaseSeen)):
        return
    left = _left(seen, waiting)
    if left:
        ranks = tuple(sorted({n for e in left if (n := e.who) is not None})) or _saver(seen, left)
        yield Found(
            title=f"{say_ranks(ranks) if ranks else 'one rank'} ran out of data or finished while others still trained",
            because="it left the group normally, and the others missed it in their next collective",
            evidence=(*left, *waiting[:3]),
            ranks=ranks or None,
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )
        return
    quiet = _quiet(seen)
    if quiet:
        yield Found(
            title=f"rank {quiet[0].who} was done while others still trained",
            because="it alone reported no failure, and the others missed it in their next collective",
            evidence=(*quiet, *waiting[:3]),
            ranks=tuple(n for e in quiet[:1] if (n := e.who) is not None),
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )
        return
    lengths = _lengths(seen)
    if lengths:
        shortest = min(lengths, key=lambda e: e.fact.of or 0)
        longest = max(lengths, key=lambda e: e.fact.of or 0)
        yield Found(
            title=f"ranks had epochs of different lengths: {shortest.fact.of} and {longest.fact.of} steps",
            because="a rank with fewer steps leaves the loop while the others wait for it in a collective",
            evidence=(shortest, longest, *waiting[:3]),
            ranks=(shortest.who,) if shortest.who is not None else None,
            confidence=Confidence.SUPPORTED,
            standing=Standing.SYMPTOM,
            fixes=_FIXES,
        )


def _nothing_to_share(fact: ExceptionRaised) -> bool:
    if not fact.frames or short_type(fact) not in _FOUND_NOTHING:
        return False
    return _divides_by_no_batches(fact) or bool(_SHARES_OUT.match(fact.frames[-1].function))


def _divides_by_no_batches(fact: ExceptionRaised) -> bool:
    return short_type(fact) == "ZeroDivisionError" and any(_BY_NO_BATCHES.search(line) for line in fact.code[-1:])


def _left(seen: EvidenceSet, waiting: tuple[Evidence[Fact], ...]) -> tuple[Evidence[Fact], ...]:
    """Evidence of ranks that finished normally while others were still training."""
    done = [
        *(e for e in seen.all(PhaseSeen) if e.fact.phase is Phase.FINISHED),
        *(e for e in seen.all(EndOfData) if e.fact.what != "logged"),
    ]
    done = [e for e in done if not any(_after(e, trouble) for trouble in waiting)]
    ended = {e.who for e in done if e.who is not None}
    refused = any(isinstance(e.fact, GroupShutDown) and "Horovod" in e.fact.how for e in waiting)
    stuck = {e.who for e in waiting if e.who is not None} - ended
    if ended and stuck and (refused or ended != {0}):
        return tuple(e for e in done if e.who is not None)
    if ended or stuck or not refused:
        return ()
    return tuple(e for e in done if any(_after(w, e) for w in waiting))


def _quiet(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """The end of the only rank that Horovod did not refuse and that shows no failure, if it had finished its work.

    It had, if its last progress bar was full or the launcher names one of the refused ranks as the first to fail.
    """
    refused = {e.who for e in seen.all(GroupShutDown) if "Horovod" in e.fact.how}
    ends = [e for e in seen.all(StreamEnded) if e.who is not None and e.who not in refused]
    if None in refused or not refused or len({e.who for e in ends}) != 1:
        return ()
    own = ends[-1].who
    failed: tuple[type[Fact], ...] = (ExceptionRaised, FatalSignal, NativeAbort, TracebackCut)
    if any(e.who == own or e.who is None for kind in failed for e in seen.all(kind)):
        return ()
    if any(e.who not in refused or not is_of_peers(e.fact) for e in seen.all(ExceptionRaised)):
        return ()
    exits = [e for e in seen.all(ProcessExited) if e.fact.code or e.fact.signal]
    if any(e.who == own or e.who is None or e.fact.signal for e in exits):
        return ()
    steps = [e for e in seen.all(StepSeen) if e.who == own and e.fact.of]
    full = steps[-1:] if steps and steps[-1].fact.step == steps[-1].fact.of and (steps[-1].fact.of or 0) > 1 else []
    if not full and not any(e.fact.first for e in exits):
        return ()
    return (*full, ends[-1])


def _saver(seen: EvidenceSet, left: tuple[Evidence[Fact], ...]) -> tuple[int, ...]:
    """Rank 0, if the rank that finished had just saved a checkpoint: by Horovod's convention, no other rank saves."""
    saves = [e for e in seen.all(PhaseSeen) if e.fact.phase is Phase.SAVING]
    return (
        (0,) if any(_after(end, save) and seen.near(end, PhaseSeen, before=3) for end in left for save in saves) else ()
    )


def _after(later: Evidence[Fact], earlier: Evidence[Fact]) -> bool:
    return (
        later.origin.source == earlier.origin.source
        and later.origin.line is not None
        and earlier.origin.line is not None
        and later.origin.line > earlier.origin.line
    )


def _lengths(seen: EvidenceSet) -> list[Evidence[StepSeen]]:
    """The last step of each rank, if the ranks print different numbers of steps."""
    last: dict[int, Evidence[StepSeen]] = {}
    for step in seen.all(StepSeen):
        if step.who is not None and step.fact.of and step.fact.of > 1:
            last[step.who] = step
    sizes = sorted({e.fact.of or 0 for e in last.values()})
    if len(last) < 2 or len(sizes) < 2 or sizes[-1] > 2 * sizes[0]:
        return []
    return list(last.values())
