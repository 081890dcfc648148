# SPDX-License-Identifier: Apache-2.0
"""Evidence: a fact, where it was seen, by whom and when; and the set of evidence that rules look at."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.process import ExceptionRaised, FatalSignal, NativeAbort, ProcessExited, TracebackCut
from keepstep.model.facts.training import Phase, PhaseSeen, StepSeen, StreamEnded
from keepstep.model.identity import Rank

TO_THE_END = 10**9
"""More lines than any log has."""
SHOWN_S = 2.0
"""A time that may be later by more than this is not shown."""
LONGEST_TRACEBACK = 500
"""In lines."""
LINES_OF_BARS = 20
"""Progress bars, if any, are redrawn within this many lines."""

F = TypeVar("F", bound=Fact)
G = TypeVar("G", bound=Fact)
A = TypeVar("A")
F_co = TypeVar("F_co", bound=Fact, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where something was seen. ``stream`` distinguishes the writers of one interleaved file."""

    source: str
    line: int | None = None
    stream: str = ""

    @property
    def writer(self) -> tuple[str, str]:
        """Whose lines these are: a log may have several writers."""
        return self.source, self.stream

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Generic[F_co]):
    """One fact with its place. ``at`` is seconds since the epoch by the writer's own clock, if that was not corrected.

    ``within_s``: by how many seconds ``at`` may be wrong, besides the few by which host clocks usually differ.
    ``later_s``: by how many it may be later still: a line that states no time has that of a line above it.
    """

    fact: F_co
    origin: Origin
    rank: Rank | None = None
    at: float | None = None
    quote: str = ""
    within_s: float = 0.0
    later_s: float = 0.0

    @property
    def known_at(self) -> float | None:
        """``at``, if it is known well enough to be shown."""
        return self.at if self.later_s <= SHOWN_S else None

    @property
    def latest(self) -> float:
        """The latest moment at which it may have happened."""
        return math.inf if self.at is None else self.at + self.within_s + self.later_s

    @property
    def who(self) -> int | None:
        """The rank concerned: the one the text names, else the one that printed it."""
        if self.fact.rank is not None and (self.rank is None or not self.fact.of_a_part):
            return self.fact.rank
        return self.rank.index if self.rank is not None else None


class CoverageState(Enum):
    CHECKED = "checked"
    PARTLY = "partly checked"
    """Only partly read: then nothing is called healthy, whatever else was seen."""
    UNAVAILABLE = "unavailable"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was checked, or could not be."""

    what: str
    state: CoverageState
    why: str = ""


_Streams = dict[tuple[str, str], tuple[list[int], list[Evidence[Fact]]]]
"""By source and stream: the lines, in order, and their evidence."""


@dataclass(frozen=True)
class EvidenceSet:
    """All evidence from one run, in order, with the questions that rules ask.

    Within one source the order is the source's own; sources follow each other as given.
    """

    items: tuple[Evidence[Fact], ...]
    coverage: tuple[Coverage, ...] = ()
    later: Mapping[type[Fact], tuple[Any, ...]] = field(default_factory=dict, repr=False)
    """Kinds of facts that are not among the items: what makes them when they are asked for, see ``made_later``."""
    _by_type: dict[type[Fact], tuple[Evidence[Fact], ...]] = field(default_factory=dict, repr=False)
    _answers: dict[object, object] = field(default_factory=dict, repr=False, compare=False)
    _streams: dict[type[Fact], _Streams] = field(default_factory=dict, repr=False, compare=False)

    def all(self, kind: type[F]) -> tuple[Evidence[F], ...]:
        """Every piece of evidence of one kind of fact."""
        if kind not in self._by_type:
            kinds = [numbers for each, numbers in self._numbers.items() if issubclass(each, kind)]
            numbers = kinds[0] if len(kinds) == 1 else sorted(n for some in kinds for n in some)
            made = (each for found, files in self.later.items() if issubclass(found, kind) for each in files)
            self._by_type[kind] = (*(self.items[n] for n in numbers), *(each for file in made for each in file))
        return self._by_type[kind]  # type: ignore[return-value]

    def has(self, kind: type[Fact]) -> bool:
        """Whether there is any evidence of this kind."""
        return any(self.later[kind]) if kind in self.later else bool(self.all(kind))

    @cached_property
    def _numbers(self) -> dict[type[Fact], list[int]]:
        """Where in ``items`` each kind of fact is: hundreds of rules ask, each for its own kinds."""
        found: dict[type[Fact], list[int]] = defaultdict(list)
        for number, evidence in enumerate(self.items):
            found[type(evidence.fact)].append(number)
        return found

    def once(self, question: Callable[[EvidenceSet], A]) -> A:
        """The answer to a question that several rules ask, computed once."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return self._answers[question]  # type: ignore[return-value]

    def groups(self, kind: type[F], by: Callable[[F], object] = lambda fact: None) -> list[tuple[Evidence[F], ...]]:
        """Evidence of one kind grouped by a key, each group in order, groups by their first."""
        found: dict[object, list[Evidence[F]]] = defaultdict(list)
        for evidence in self.all(kind):
            found[by(evidence.fact)].append(evidence)
        return [tuple(group) for group in found.values()]

    def near(self, place: Evidence[Fact], kind: type[G], *, before: int = 0, after: int = 0) -> tuple[Evidence[G], ...]:
        """Evidence of ``kind`` in the same stream, at most this many lines away."""
        if place.origin.line is None:
            return ()
        key = place.origin.writer
        if kind not in self._streams:
            self._streams[kind] = _in_streams(self.all(kind))
        lines, there = self._streams[kind].get(key, ((), ()))
        low = bisect_left(lines, place.origin.line - before)
        high = bisect_right(lines, place.origin.line + after)
        return tuple(there[low:high])  # type: ignore[arg-type]

    def raised_around(self, place: Evidence[Fact]) -> tuple[Evidence[ExceptionRaised], ...]:
        """The exceptions whose printed lines include this."""
        line = place.origin.line or 0
        above = self.near(place, ExceptionRaised, before=LONGEST_TRACEBACK)
        return tuple(e for e in above if line <= (e.origin.line or 0) + e.fact.lines)

    @cached_property
    def position(self) -> dict[int, int]:
        """The place of each item in the whole, by ``id``."""
        return {id(e): n for n, e in enumerate(self.items)}

    @cached_property
    def ranks(self) -> frozenset[int]:
        """Every rank that printed something or was mentioned."""
        return frozenset(who for e in self.items if (who := e.who) is not None)

    @cached_property
    def world_size(self) -> int | None:
        """The size of the world as most processes saw it."""
        sizes = [e.fact.size for e in self.all(WorldSeen) if e.fact.size]
        return max(set(sizes), key=sizes.count) if sizes else None

    def survived(self, place: Evidence[Fact]) -> bool:
        """Whether the same stream kept training after this: it finished, or printed two further, different steps.

        One more step is not enough: a dying program draws its progress bars once again, including nested ones; nor is
        a bar at zero. A stream with later output also survived if another one of its source, such as rank 0's, says
        later that the training is finished.
        """
        line = place.origin.line
        if line is None:
            return False
        phases = self.near(place, PhaseSeen, after=TO_THE_END)
        if any(e.fact.phase is Phase.FINISHED and (e.origin.line or 0) > line for e in phases):
            return True
        if self._finished.get(place.origin.source, -1) > line and self._said_more(place):
            return True
        later = [
            e for e in self.near(place, StepSeen, after=TO_THE_END) if (e.origin.line or 0) > line and e.fact.step != 0
        ]
        drawn = {e.fact.of: e.fact.step for e in self.near(place, StepSeen, before=LINES_OF_BARS) if e.fact.of}
        different = {
            (e.fact.step, e.fact.of) for e in later if not e.fact.of or drawn.get(e.fact.of, -1) != e.fact.step
        }
        return len(different) >= 2 or sum(e.fact.step is None for e in later) >= 2

    def merely_logged(self, raised: Evidence[ExceptionRaised]) -> bool:
        """Whether a logger printed an exception and its stream continued: it need not have ended anything."""
        if not raised.fact.logged or raised.origin.line is None:
            return False
        if raised.fact.caught:
            return True
        return self._said_more(raised)

    def _said_more(self, place: Evidence[Fact]) -> bool:
        """Whether the same stream wrote more after all the lines of this."""
        lines = place.fact.lines if isinstance(place.fact, ExceptionRaised) else 0
        return self._ends.get(place.origin.writer, -1) > (place.origin.line or 0) + lines + 3

    @cached_property
    def _finished(self) -> dict[str, int]:
        """For each source, the last line that says that the training is finished."""
        done = [e for e in self.all(PhaseSeen) if e.fact.phase is Phase.FINISHED]
        return {e.origin.source: e.origin.line or 0 for e in sorted(done, key=lambda e: e.origin.line or 0)}

    def is_last_word(self, place: Evidence[Fact], within: int = 3) -> bool:
        """Whether the same stream wrote almost nothing after this."""
        end = self._ends.get(place.origin.writer)
        return end is not None and place.origin.line is not None and end - place.origin.line <= within

    @cached_property
    def _ends(self) -> dict[tuple[str, str], int]:
        """The last line of each stream."""
        ends: dict[tuple[str, str], int] = {}
        for each in self.all(StreamEnded):
            key = each.origin.writer
            ends[key] = max(each.origin.line or 0, ends.get(key, 0))
        return ends

    @cached_property
    def bad_exits(self) -> tuple[Evidence[ProcessExited], ...]:
        """Processes of the run that ended badly, unless the run kept training, or had finished and was cleaning up."""
        return tuple(
            e
            for e in self.all(ProcessExited)
            if (e.fact.code or e.fact.signal) and not self.survived(e) and not self._tidied_up(e)
        )

    def _tidied_up(self, exited: Evidence[ProcessExited]) -> bool:
        told_to = exited.fact.signal == "SIGTERM" or exited.fact.code in (143, -15)
        done = self._finished.get(exited.origin.source)
        return told_to and done is not None and done < (exited.origin.line or 0)

    @cached_property
    def broken(self) -> bool:
        """Whether anything here shows a process that ended badly."""
        return (
            any(not self.survived(e) and not self.merely_logged(e) for e in self.all(ExceptionRaised))
            or bool(self.all(FatalSignal))
            or bool(self.all(NativeAbort))
            or bool(self.bad_exits)
            or any(not self.survived(e) for e in self.all(TracebackCut))
        )


def _in_streams(items: Iterable[Evidence[Fact]]) -> _Streams:
    streams: dict[tuple[str, str], list[Evidence[Fact]]] = defaultdict(list)
    for evidence in items:
        if evidence.origin.line is not None:
            streams[evidence.origin.writer].append(evidence)
    found: _Streams = {}
    for key, there in streams.items():
        there.sort(key=lambda e: e.origin.line or 0)
        found[key] = ([e.origin.line or 0 for e in there], there)
    return found


def gather(parts: Iterable[Iterable[Evidence[Fact]]], coverage: Iterable[Coverage] = ()) -> EvidenceSet:
    """One set from many sources, in the order given."""
    return EvidenceSet(items=tuple(e for part in parts for e in part), coverage=tuple(coverage))
