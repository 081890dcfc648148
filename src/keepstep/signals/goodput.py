# SPDX-License-Identifier: Apache-2.0
"""Where the time of a run went: every second of every rank lies in exactly one bucket. Pure.

The buckets have the names of Google's BadputType (without the asynchronous loading of data, which costs nothing), and
two more. A rank's time is cut into pieces that cover it without a gap, each with shares that add up to 1: so the
buckets add up to the time of the run, whatever was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from keepstep.signals.blackbox import BoxPhase

CLEARLY = 0.05
"""Share of a span: a rank that waits for its batch by this much longer than another one keeps that one waiting."""
BUSIER = 0.2
"""Share of a span: a rank whose thread is busy for this much longer than another's keeps that one waiting."""
TOGETHER = 2
"""Steps: ranks that are further apart do not wait for each other."""
STILL_STEPS, IDLE = 5, 0.5
"""A rank whose thread is less busy than this, and that does no step for so many usual ones, does not move."""
HOLE_S = 3.0
"""A hole between two measurements up to this long, or up to two of their lengths, belongs to the first of them."""
TOLD_S = 15.0
"""How long after the end of a standstill that may be told: `run` looks now and then."""
UNEXPLAINED, ENDING, ORDINARILY = "unexplained", "ending", "part of every run"
TRIES_AGAIN = "the script waits to try again"


class Bucket(Enum):
    """``words`` say what a rank did in that time."""

    PRODUCTIVE = "productive"
    TPU_INITIALIZATION = "tpu_initialization"
    TRAINING_PREP = "training_prep"
    PROGRAM_STARTUP = "program_startup"
    DATA_LOADING_SYNC = "data_loading_sync"
    UNPRODUCTIVE_CHECKPOINT_SAVE_TIME = "unproductive_checkpoint_save_time"
    UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME = "unproductive_checkpoint_restore_time"
    WASTED_PROGRESS_FROM_DISRUPTION = "wasted_progress_from_disruption"
    INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION = "infrastructure_recovery_from_disruption"
    CUSTOM_BADPUT_EVENTS = "custom_badput_events"
    OTHER = "other"
    WAITING_FOR_ANOTHER_RANK = "waiting_for_another_rank"
    PAUSED = "paused"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Bucket.PRODUCTIVE: "training",
    Bucket.TPU_INITIALIZATION: "initializing the TPU",
    Bucket.TRAINING_PREP: "starting",
    Bucket.PROGRAM_STARTUP: "compiling",
    Bucket.DATA_LOADING_SYNC: "waiting for batches",
    Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME: "saving checkpoints",
    Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME: "loading a checkpoint",
    Bucket.WASTED_PROGRESS_FROM_DISRUPTION: "steps that had to be done again",
    Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION: "stopped after a failure",
    Bucket.CUSTOM_BADPUT_EVENTS: "evaluating",
    Bucket.OTHER: "anything else",
    Bucket.WAITING_FOR_ANOTHER_RANK: "waiting for another rank",
    Bucket.PAUSED: "paused, or waiting to try again",
}
AWAY = {
    BoxPhase.INPUT: "waits longer for its batches",
    BoxPhase.CHECKPOINT: "saves a checkpoint",
    BoxPhase.EVALUATION: "evaluates",
    BoxPhase.COMPILE: "compiles",
}
"""What a rank may do while the others wait for it in a step."""
_OF_PHASE = {
    BoxPhase.START: Bucket.TRAINING_PREP,
    BoxPhase.COMPILE: Bucket.PROGRAM_STARTUP,
    BoxPhase.INPUT: Bucket.DATA_LOADING_SYNC,
    BoxPhase.COMPUTE: Bucket.PRODUCTIVE,
    BoxPhase.CHECKPOINT: Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    BoxPhase.EVALUATION: Bucket.CUSTOM_BADPUT_EVENTS,
    BoxPhase.END: Bucket.OTHER,
    BoxPhase.RETRY: Bucket.PAUSED,
}
ORDINARY = {
    Bucket.TPU_INITIALIZATION,
    Bucket.TRAINING_PREP,
    Bucket.PROGRAM_STARTUP,
    Bucket.UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,
    Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME,
    Bucket.CUSTOM_BADPUT_EVENTS,
}
"""What every run does: that is its explanation, unless a failure made it necessary again."""


@dataclass(frozen=True)
class Measured:
    """What several ranks did in one span of an attempt. Shares are of the span, one for each rank."""

    attempt: int
    start: float
    end: float
    ranks: Sequence[int]
    shares: Mapping[BoxPhase, Sequence[float]]
    steps: Sequence[float]
    """Done at its end; NaN if unknown."""
    still: Sequence[float]
    """1: the rank stood still in a step."""
    busy: Sequence[float] = ()
    """Share of the time in which its training's thread ran or wanted to; NaN if unknown."""


@dataclass(frozen=True)
class AttemptTimes:
    """One attempt, and what is known about its end."""

    number: int
    start: float
    end: float
    failed: bool = False
    cause: str | None = None
    """The finding that it ended for, in words."""
    culprits: tuple[int, ...] = ()
    """The ranks that the finding names: they do not wait for another rank."""
    slow: str | None = None
    """A finding about what made it slow."""
    stalls: tuple[tuple[float, str], ...] = ()
    """Standstills that ended by themselves: when that was seen, and in words."""
    paused: str | None = None
    """Why its ranks were asked to pause."""
    resumed: bool | None = None
    """Whether it went on from a checkpoint."""
    unsaved_s: float | None = None
    """How long it had trained since its last checkpoint when it ended; None: unknown."""


@dataclass
class Goodput:
    """Seconds of all ranks together. ``lost``: by bucket and explanation."""

    ranks: int = 0
    wall_s: float = 0.0
    buckets: dict[Bucket, float] = field(default_factory=dict)
    lost: dict[tuple[Bucket, str], float] = field(default_factory=dict)
    waited_for: dict[tuple[int, str], float] = field(default_factory=dict)
    """How long ranks in step waited for one whose batches or steps take longer: by that rank, and what it does."""
    measured: float = 0.0
    """The share of the time for which it is known what ranks did; 0: they had no guard, and nothing can be said."""

    @property
    def share(self) -> float | None:
        """Of the time that was training; None: unknown."""
        whole = self.ranks * self.wall_s
        return self.buckets.get(Bucket.PRODUCTIVE, 0.0) / whole if whole > 0 and self.measured > 0 else None

    @property
    def unexplained_s(self) -> float:
        return sum(seconds for (_, why), seconds in self.lost.items() if why == UNEXPLAINED)

    @property
    def lost_s(self) -> float:
        return sum(self.lost.values())


def as_document(found: Goodput) -> dict[str, Any]:
    """For JSON. Seconds are those of all ranks together."""
    return {
        "ranks": found.ranks,
        "wall_s": round(found.wall_s, 3),
        "goodput": found.share,
        "measured": found.measured,
        "buckets": {each.value: round(found.buckets.get(each, 0.0), 3) for each in Bucket},
        "lost": [
            {"bucket": bucket.value, "why": why, "seconds": round(seconds, 3)}
            for (bucket, why), seconds in sorted(found.lost.items(), key=lambda item: -item[1])
        ],
    }


@dataclass
class _Piece:
    start: float
    end: float
    parts: dict[Bucket, float]
    """Shares, which add up to 1."""
    still: bool = False
    stands: tuple[float, float] = (0.0, 0.0)
    """From when to when the rank stood still, if it is part of that."""
    measured: bool = True
    why: str | None = None
    """What explains what is in no other bucket."""
    waits_for: tuple[int, str] | None = None
    """A rank whose batches or steps take longer, and what it does."""
    surely: dict[Bucket, str] = field(default_factory=dict)
    """What explains a bucket, whatever else is known ..."""
    perhaps: dict[Bucket, str] = field(default_factory=dict)
    """... and what does where no finding is about it."""


def goodput_of(
    attempts: Sequence[AttemptTimes], measured: Sequence[Measured], start: float, end: float, ranks: Sequence[int]
) -> Goodput:
    """Where the time from ``start`` to ``end`` went. ``attempts`` in their order."""
    found = Goodput(len(ranks), max(0.0, end - start))
    pieces = _by_rank(measured)
    known, last = 0.0, dict(sorted(pieces))
    """The highest rank of each attempt."""
    lost_before = _lost_work(attempts)
    for rank in ranks:
        at, why = start, None
        for attempt in attempts:
            begin, stop = max(attempt.start, at), min(max(attempt.end, at), end)
            first = not any(each.number < attempt.number for each in attempts)
            bucket = Bucket.TRAINING_PREP if first else Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION
            _put(found, bucket, max(0.0, min(begin, end) - at), why)
            begin = min(begin, end)
            if rank > last.get(attempt.number, rank):
                _put(found, Bucket.OTHER, stop - begin, why)  # the run went on without it
                at = max(begin, stop)
                continue
            cut = _cut(pieces.get((attempt.number, rank), []), begin, stop, attempt)
            _waste(cut, lost_before.get(attempt.number))
            _join_standstills(cut)
            moved = max((piece.end for piece in cut if piece.measured and not piece.still), default=begin)
            for piece in cut:
                stuck = piece.still and piece.start >= moved  # until the end: an earlier standstill ended by itself
                known += (piece.end - piece.start) if piece.measured else 0.0
                for kind, share in piece.parts.items():
                    if stuck and rank in attempt.culprits and kind is Bucket.WAITING_FOR_ANOTHER_RANK:
                        kind = Bucket.OTHER
                    finding = _why(kind, piece, attempt, why, stuck=stuck)
                    said = piece.surely.get(kind) or finding or piece.perhaps.get(kind)
                    seconds = (piece.end - piece.start) * share
                    _put(found, kind, seconds, said)
                    if kind is Bucket.WAITING_FOR_ANOTHER_RANK and piece.waits_for is not None:
                        found.waited_for[piece.waits_for] = found.waited_for.get(piece.waits_for, 0.0) + seconds
            at = max(begin, stop)
            why = attempt.cause if attempt.failed else None
        after = Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION if why is not None else Bucket.OTHER
        _put(found, after, max(0.0, end - at), why or (ENDING if attempts else None))
    whole = found.ranks * found.wall_s
    found.measured = known / whole if whole > 0 else 0.0
    return found


def _put(found: Goodput, bucket: Bucket, seconds: float, why: str | None) -> None:
    if seconds <= 0.0:
        return
    found.buckets[bucket] = found.buckets.get(bucket, 0.0) + seconds
    if bucket is not Bucket.PRODUCTIVE:
        said = why or (ORDINARILY if bucket in ORDINARY else UNEXPLAINED)
        found.lost[bucket, said] = found.lost.get((bucket, said), 0.0) + seconds


def _why(bucket: Bucket, piece: _Piece, attempt: AttemptTimes, before: str | None, *, stuck: bool) -> str | None:
    """What explains it: for what a restart made necessary, why the attempt before ended."""
    if bucket is Bucket.WASTED_PROGRESS_FROM_DISRUPTION:
        return attempt.cause
    if bucket is Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION:
        return attempt.cause
    if bucket is Bucket.OTHER and not piece.still:
        return piece.why or ENDING
    if bucket in (Bucket.WAITING_FOR_ANOTHER_RANK, Bucket.OTHER):
        return attempt.cause if stuck else _of_stall(piece, attempt) if piece.still else attempt.slow
    if bucket is Bucket.PAUSED:
        return attempt.paused or TRIES_AGAIN
    if bucket is Bucket.DATA_LOADING_SYNC:
        return attempt.slow
    if bucket in (Bucket.TRAINING_PREP, Bucket.PROGRAM_STARTUP, Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME):
        return before
    return None


def _of_stall(piece: _Piece, attempt: AttemptTimes) -> str | None:
    """The words on the standstill that a piece is of, if its end was told."""
    begin, end = piece.stands
    return next((words for at, words in attempt.stalls if begin <= at <= end + TOLD_S), None)


def _lost_work(attempts: Sequence[AttemptTimes]) -> dict[int, float]:
    """For each attempt, how long its last training was in vain: a later attempt did those steps again."""
    found: dict[int, float] = {}
    for number, attempt in enumerate(attempts[1:], 1):
        earlier = attempts[number - 1]
        if attempt.resumed is False:
            found |= {each.number: float("inf") for each in attempts[:number]}
        else:
            found.setdefault(earlier.number, earlier.unsaved_s if earlier.unsaved_s is not None else 0.0)
    return found


# --- pieces


def _by_rank(measured: Sequence[Measured]) -> dict[tuple[int, int], list[_Piece]]:
    """What each rank did, with the time in which it waited for others."""
    together: dict[tuple[int, int], list[Measured]] = {}
    for each in measured:
        together.setdefault((each.attempt, round(each.end)), []).append(each)
    found: dict[tuple[int, int], list[_Piece]] = {}
    stepped: set[tuple[int, int]] = set()
    stood = _stood(measured)
    for (attempt, _), group in sorted(together.items(), key=lambda item: item[0]):
        slowest = _slowest(group)
        for each in group:
            for place, rank in enumerate(each.ranks):
                key = (attempt, rank)
                if _known(each.steps, place) > 0:
                    stepped.add(key)
                still = 1.0 if _known(each.still, place) >= 1.0 else stood.get((*key, each.end), 0.0)
                found.setdefault(key, []).append(_piece(each, place, slowest, has_stepped=key in stepped, still=still))
    return found


def _stood(measured: Sequence[Measured]) -> dict[tuple[int, int, float], float]:
    """By attempt, rank and end of a span: which share of its steps' time was a standstill, by the steps that it lacks.

    Only around spans in which no step at all was done: in the others they may just have been longer.
    """
    by_rank: dict[tuple[int, int], list[_Stepped]] = {}
    for each in sorted(measured, key=lambda each: each.end):
        for place, rank in enumerate(each.ranks):
            in_steps_s = (each.end - each.start) * _known(each.shares.get(BoxPhase.COMPUTE, ()), place)
            busy = each.busy[place] if place < len(each.busy) else float("nan")
            before = by_rank.setdefault((each.attempt, rank), [])
            last, steps = before[-1] if before else None, _known(each.steps, place)
            done = steps - last.steps if last is not None and last.steps > 0 else 0.0
            took_s = each.end - last.end if last is not None else 0.0
            before.append(_Stepped(each.end, steps, done, took_s, in_steps_s, busy < IDLE))
    found: dict[tuple[int, int, float], float] = {}
    for key, spans in by_rank.items():
        usual_s = sorted(each.took_s / each.done for each in spans if each.done > 0)
        if not usual_s:
            continue
        step_s = usual_s[len(usual_s) // 2]
        for begin, end in _without(spans):
            if sum(span.in_steps_s for span in spans[begin:end]) > STILL_STEPS * step_s:
                for span in spans[begin - 1 : end + 1]:
                    lacking_s = span.in_steps_s - max(span.done, 0.0) * step_s
                    if lacking_s > 0:
                        found[(*key, span.end)] = lacking_s / span.in_steps_s
    return found


class _Stepped(NamedTuple):
    """A span of one rank."""

    end: float
    steps: float
    done: float
    took_s: float
    """Since the end of the span before."""
    in_steps_s: float
    idle: bool


def _without(spans: Sequence[_Stepped]) -> Iterator[tuple[int, int]]:
    """From where to where nothing was done, after a first step."""
    for empty, group in itertools.groupby(
        range(1, len(spans)), key=lambda at: spans[at].idle and spans[at].done == 0 and spans[at].steps > 0
    ):
        if empty:
            places = list(group)
            yield places[0], places[-1] + 1


@dataclass(frozen=True)
class _Slowest:
    """The ranks that are away from their steps for longest, and whose threads are busiest, by how much of the time."""

    away: tuple[float, int] = (0.0, 0)
    least_away: float = 0.0
    phase: BoxPhase = BoxPhase.INPUT
    """What the one that is away for longest mostly does."""
    busy: tuple[float, int] = (0.0, 0)


def _slowest(group: Sequence[Measured]) -> _Slowest:
    """None in particular unless the ranks go in step."""
    steps = [step for each in group for step in each.steps if step == step]
    if len(steps) < 2 or max(steps) - min(steps) > TOGETHER:
        return _Slowest()
    away = [(_away(each, place), rank, each, place) for each in group for place, rank in enumerate(each.ranks)]
    most, rank, each, place = max(away, key=lambda item: item[0])
    phase = max(AWAY, key=lambda phase: _known(each.shares.get(phase, ()), place))
    busy = [(_known(each.busy, place), rank) for each in group for place, rank in enumerate(each.ranks)]
    return _Slowest((most, rank), min(item[0] for item in away), phase, max(busy))


def _away(each: Measured, place: int) -> float:
    return sum(_known(each.shares.get(phase, ()), place) for phase in AWAY)


def _piece(each: Measured, place: int, slowest: _Slowest, *, has_stepped: bool, still: float) -> _Piece:
    """``still``: the share of its steps' time in which it stood still."""
    shares = {phase: share for phase, column in each.shares.items() if (share := _known(column, place)) > 0}
    whole = sum(shares.values())
    if whole <= 0:
        return _Piece(each.start, each.end, {Bucket.OTHER: 1.0})
    parts: dict[Bucket, float] = {}
    for phase, share in shares.items():
        bucket = _OF_PHASE[phase]
        if phase is BoxPhase.CHECKPOINT and not has_stepped:
            bucket = Bucket.UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME
        parts[bucket] = parts.get(bucket, 0.0) + share / whole
    productive = parts.get(Bucket.PRODUCTIVE, 0.0)
    piece = _Piece(each.start, each.end, parts, still > 0 and productive > 0)
    (most, rank), (busiest, busy_rank), own = slowest.away, slowest.busy, _known(each.busy, place)
    waits, slow, words = most - _away(each, place) / whole, rank, f"{AWAY[slowest.phase]}"
    steadily = slowest.phase is BoxPhase.INPUT
    if slowest.phase is BoxPhase.INPUT and rank == each.ranks[place] and most - slowest.least_away > CLEARLY:
        piece.perhaps[Bucket.DATA_LOADING_SYNC] = f"rank {rank} {words}"
    if own > 0 and busiest - own > max(BUSIER, waits):
        waits, slow, words, steadily = busiest - own, busy_rank, "computes longer than the others", True
    elif waits > CLEARLY and slowest.phase is not BoxPhase.INPUT:
        piece.surely[Bucket.WAITING_FOR_ANOTHER_RANK] = f"rank {rank} {words}"
    waits = productive * still if piece.still else min(productive, waits)
    if piece.still or waits > CLEARLY:
        parts[Bucket.PRODUCTIVE] = productive - waits
        parts[Bucket.WAITING_FOR_ANOTHER_RANK] = waits
        if not piece.still:
            piece.perhaps[Bucket.WAITING_FOR_ANOTHER_RANK] = f"rank {slow} {words}"
            piece.waits_for = (slow, words) if steadily else None
    return piece


def _known(column: Sequence[float], place: int) -> float:
    value = column[place] if place < len(column) else 0.0
    return value if value == value else 0.0


def _cut(pieces: list[_Piece], start: float, end: float, attempt: AttemptTimes) -> list[_Piece]:
    """The time of a rank in an attempt as pieces without a gap: what was not measured has a bucket too."""
    found: list[_Piece] = []
    at = start
    for piece in sorted(pieces, key=lambda each: each.start):
        begin, stop = max(piece.start, at), min(piece.end, end)
        if stop <= begin:
            continue
        if begin > at and not found:
            found.append(_Piece(at, begin, {Bucket.TRAINING_PREP: 1.0}, measured=False))
        elif begin > at:
            last = found[-1]
            if begin - at <= max(HOLE_S, 2 * (last.end - last.start)):
                last.end = begin
            else:
                found.append(_Piece(at, begin, {Bucket.OTHER: 1.0}, measured=False, why=UNEXPLAINED))
        found.append(replace(piece, start=begin, end=stop, parts=dict(piece.parts)))
        at = stop
    if end > at:
        bucket = Bucket.OTHER if found else Bucket.TRAINING_PREP
        if attempt.failed and found:
            bucket = Bucket.INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION
        found.append(_Piece(at, end, {bucket: 1.0}, measured=False))
    return found


def _join_standstills(pieces: list[_Piece]) -> None:
    """Pieces that follow each other, in all of which a rank stood still, are one standstill."""
    for still, group in itertools.groupby(pieces, key=lambda each: each.still):
        if still:
            one = list(group)
            for piece in one:
                piece.stands = one[0].start, one[-1].end


def _waste(pieces: list[_Piece], seconds: float | None) -> None:
    """Training since the last checkpoint, the newest first, that was done again."""
    for piece in (each for each in reversed(pieces) if each.measured):
        if not seconds or seconds <= 0:
            return
        productive = piece.parts.get(Bucket.PRODUCTIVE, 0.0)
        span = piece.end - piece.start
        taken = min(productive, seconds / span) if span > 0 else 0.0
        if taken > 0:
            piece.parts[Bucket.PRODUCTIVE] = productive - taken
            piece.parts[Bucket.WASTED_PROGRESS_FROM_DISRUPTION] = taken
        seconds -= span
