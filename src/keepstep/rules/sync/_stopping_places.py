# SPDX-License-Identifier: Apache-2.0
"""Where each rank was when it timed out, was interrupted, or had its stack printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from keepstep.base import wording
from keepstep.model.facts import (
    CollectiveTimeout,
    CoreDump,
    ExceptionRaised,
    Fact,
    FatalSignal,
    Frame,
    PeerLost,
    ProcessSeen,
    StacksAtLimit,
    StepSeen,
)
from keepstep.rules.api import Evidence, EvidenceSet, lazy_pattern
from keepstep.rules.sync._stacks_in_the_log import processes
from keepstep.signals.stacks import base_name, innermost_user
from keepstep.signals.waits import Wait, WaitKind, awaits_others, waits_in

_INTERRUPTED = ("KeyboardInterrupt", "SystemExit", "SignalException", "GeneratorExit", "CancelledError")
_POINT_TO_POINT = lazy_pattern(r"send|recv", most=80)
_ROOTED = lazy_pattern(r"^_?(?:broadcast|reduce$|gather|scatter)|broadcast of buffers", most=80)
_OF_GROUPS = lazy_pattern(
    r"tensor_parallel|pipeline|distributed/(?:_?tensor|pipelining)/|device_mesh|sequence_parallel"
)


@dataclass(frozen=True)
class RankPlace:
    """Where one rank was. ``waited``: it ended there because others did not come, so it was in a collective."""

    rank: int
    shown: Evidence[Fact]
    frames: tuple[Frame, ...]
    """Innermost first."""
    wait: Wait | None
    waited: bool
    limited: bool = False
    """Its own watchdog found it there, in a step that took longer than any may."""

    @property
    def user(self) -> Frame | None:
        return innermost_user(self.frames)

    @property
    def in_collective(self) -> bool:
        return self.waited or self.in_program or (awaits_others(self.wait) and not self.leaving)

    @property
    def in_program(self) -> bool:
        """Whether it waited for its device until its own limit: for a program that others may have a part in."""
        return self.limited and self.wait is not None and self.wait.kind is WaitKind.DEVICE

    @property
    def leaving(self) -> bool:
        return self.wait is not None and self.wait.kind is WaitKind.LEAVING

    @property
    def sure(self) -> bool:
        """Whether being there means waiting for others, and not a long step."""
        return self.waited or self.limited or (self.wait is not None and not self.wait.vague)

    @property
    def op(self) -> str | None:
        return self.wait.name if self.wait is not None and awaits_others(self.wait) else None

    @property
    def rooted(self) -> bool:
        """Whether ranks do different things in it, so they may call it from different lines and leave it early."""
        return self.op is not None and _ROOTED.search(self.op) is not None

    @property
    def point_to_point(self) -> bool:
        return self.op is not None and _POINT_TO_POINT.search(self.op) is not None

    @property
    def of_a_part(self) -> bool:
        """Whether the collective probably belongs to a group of some of the ranks."""
        return any(_OF_GROUPS.search(frame.file or "") for frame in self.frames)

    @property
    def line(self) -> tuple[str | None, int | None]:
        user = self.user
        return (user.file, user.line) if user is not None else (None, None)

    @property
    def function(self) -> tuple[str | None, str]:
        user = self.user
        return (user.file, user.function) if user is not None else (None, "")

    @property
    def where(self) -> str:
        """``all_gather at evaluate.py:40``."""
        name = self.op or ("a collective" if self.waited else self.wait.name if self.wait is not None else "")
        user = self.user
        line = f"{base_name(user.file)}:{user.line}" if user is not None else ""
        return " at ".join(part for part in (name, line) if part) or "an unknown place"


def places(seen: EvidenceSet) -> dict[int, RankPlace]:
    """By rank; empty where a rank crashed or failed with an exception of its own, which then is the reason."""
    return seen.once(_places)


def _places(seen: EvidenceSet) -> dict[int, RankPlace]:
    crashed = any(e.fact.signal != "SIGABRT" for e in seen.all(FatalSignal))
    if crashed or any(seen.all(kind) for kind in (ProcessSeen, CoreDump)):
        return {}
    timed = [e for e in seen.all(CollectiveTimeout) if not seen.survived(e) and _has_limit(e.fact)]
    found: dict[int, RankPlace] = {}
    lost = [e for e in seen.all(PeerLost) if e.fact.final and not seen.survived(e)] if timed else []
    for failed in (*timed, *lost):
        for raised in seen.raised_around(failed):
            if raised.who is not None and raised.fact.place is None and raised.who not in found:
                found[raised.who] = _of_exception(raised.who, raised, waited=True)
    limits = {e.who for e in timed}
    limited = _limited(seen)
    aborted = {e.who for e in seen.all(FatalSignal)}
    for process in processes(seen):
        rank, wait = process.rank, process.wait
        if rank is None or rank in found or process.main is None or seen.survived(process.shown):
            continue
        if rank in aborted and rank not in limits:
            return {}
        found[rank] = RankPlace(
            rank, process.shown, process.shown.fact.frames, wait, waited=False, limited=rank in limited
        )
    for raised in _of_their_own(seen):
        rank = raised.who
        if rank is None or rank in found:
            continue
        if raised.fact.type.rpartition(".")[2] not in _INTERRUPTED:
            return {}
        if timed:
            found[rank] = _of_exception(rank, raised, waited=False)
    return found


def _limited(seen: EvidenceSet) -> set[int | None]:
    """The ranks whose own watchdog struck after their first step, which may take long to compile."""
    struck = {e.who for e in seen.all(StacksAtLimit) if not seen.survived(e)}
    return struck & {e.who for e in seen.all(StepSeen)}


def _has_limit(fact: CollectiveTimeout) -> bool:
    """Whether the message mentions a time limit, not just a failed operation."""
    return bool(fact.op or fact.seq or fact.timeout_ms) and fact.op != "STORE"


def _of_their_own(seen: EvidenceSet) -> Iterator[Evidence[ExceptionRaised]]:
    for raised in seen.all(ExceptionRaised):
        fact = raised.fact
        if not (fact.logged or fact.chained or fact.place) and not seen.survived(raised):
            yield raised


def _of_exception(rank: int, raised: Evidence[ExceptionRaised], *, waited: bool) -> RankPlace:
    frames = tuple(reversed(raised.fact.frames))
    return RankPlace(rank, raised, frames, waits_in(frames), waited)


def listing(sides: Iterable[list[RankPlace]]) -> str:
    """``ranks 0-6 in all_gather at evaluate.py:40, rank 7 in all_reduce at train.py:88``."""
    return ", ".join(f"{wording.ranks(p.rank for p in side)} in {side[0].where}" for side in sides)
