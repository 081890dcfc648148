# SPDX-License-Identifier: Apache-2.0
"""What parts of the guard and its adapters may ask of the session: small protocols that the session fulfils.

This file is at the bottom of the guard. A part names the protocol that it needs and never imports the session, so a
reader sees what it can touch, and no two files of the guard import each other. Nothing here runs: the hot path calls
the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from keepstep.guard.box_writer import Write
from keepstep.guard.exchange import Exchange
from keepstep.guard.own_rank import Identity
from keepstep.signals.blackbox import Record

P = ParamSpec("P")
T = TypeVar("T")

Values = Callable[[Any], tuple[float, float, bool] | None]
"""Least, largest, all finite; None where the thing does not live on the host."""


class Schedule(Protocol):
    """The guard's own thread."""

    def every(self, period: float, part: str, call: Callable[[], None]) -> None: ...


class Reports(Protocol):
    """Write down and say what was seen, and at which step."""

    @property
    def steps(self) -> int: ...
    @property
    def who(self) -> Identity: ...

    def note(self, fact: str, fields: dict[str, Any], quote: str) -> None: ...
    def say(self, text: str, *, always: bool = False) -> None: ...
    def flush(self) -> None: ...


class FailsSafely(Protocol):
    """Fail without harming the training."""

    def part(self, name: str) -> AbstractContextManager[None]: ...
    def guarded(self, name: str, function: Callable[P, T]) -> Callable[P, T | None]: ...
    def is_off(self, name: str) -> bool: ...
    def failed(self, name: str, error: BaseException | str) -> None: ...
    def uncovered(self, part: str, why: str) -> None: ...


class Strict(Reports, Protocol):
    """Reports, and whether a fault stops the training."""

    @property
    def strict(self) -> bool: ...


class Compared(Protocol):
    """Hashes of this rank's batches, which are compared with those of the other ranks."""

    def add(self, name: str, digest: str) -> None: ...


class Feeds(Reports, Protocol):
    """For hashes of batches."""

    @property
    def fed_alike(self) -> Compared: ...


class AsksForProfile(Reports, Protocol):
    """For a rank that is to be profiled."""

    @property
    def folder(self) -> Path | None: ...
    @property
    def usual_step_s(self) -> float | None: ...


class Profiled(AsksForProfile, Protocol):
    """For the profile of some steps."""

    at_step: list[Callable[[], None]]

    @property
    def framework(self) -> str | None: ...


class ComparesBatches(Reports, Protocol):
    """For what compares the batches of ranks, from the guard's thread."""

    @property
    def pulse(self) -> Schedule: ...
    @property
    def exchange(self) -> Exchange | None: ...

    def uncovered(self, part: str, why: str) -> None: ...


class ComparesNumbers(Reports, Protocol):
    """For what compares the numbers of replicas, from the guard's thread."""

    @property
    def strict(self) -> bool: ...
    @property
    def pulse(self) -> Schedule: ...
    @property
    def ledger(self) -> RecordsSaves: ...

    @property
    def exchange(self) -> Exchange | None: ...
    @property
    def usual_step_s(self) -> float | None: ...

    def uncovered(self, part: str, why: str) -> None: ...
    def heard_from(self, topic: str, rank: int) -> str | None: ...


class Fingerprinted(Protocol):
    """Fingerprints of this rank's numbers, which are compared with those of its replicas."""

    off: bool
    asked: int | None

    def add(self, look: Any) -> None: ...
    def add_inside(
        self,
        subject: str,
        step: int,
        names: Sequence[str],
        replicas: Mapping[str, Sequence[Any]],
        *,
        promised: bool = False,
    ) -> None: ...
    def listen(self, leader: int) -> None: ...
    def tell_all(self, leader: int, agreed: int, words: str) -> None: ...
    def stop_if_strict(self) -> None: ...
    def turn(self) -> None: ...


class Phases(Protocol):
    """Enter a phase of the training."""

    def open(self) -> None: ...
    def phase(self, phase: int) -> int: ...


class Talks(Protocol):
    """Talk with the guards of the other ranks. Nothing here waits without a bound."""

    @property
    def exchange(self) -> Exchange | None: ...

    def use_exchange(self, exchange: Exchange) -> None: ...
    def leave(self) -> None: ...
    def agree(
        self, subject: str, stated: Mapping[str, str], *, patience: float = ..., ranks: Iterable[int] = ()
    ) -> None: ...
    def await_peers(self, said: Callable[[], bool], *, at_least: float = 0.0) -> bool: ...
    def compare(self, subject: str, stated: Mapping[str, str], *, ordinal: int | None = None) -> None: ...
    def state(self, subject: str, stated: Mapping[str, str], *, where: str | None = None) -> None: ...
    def ahead(self, subject: str, rank: int) -> dict[str, str] | None: ...
    def tell_peers(self, topic: str, text: str) -> bool: ...
    def heard(self, topic: str) -> dict[int, str]: ...
    def heard_from(self, topic: str, rank: int) -> str | None: ...


class Observes(Reports, FailsSafely, Protocol):
    """For a look that reports what it finds."""


class MarksPhases(Phases, FailsSafely, Protocol):
    """For hooks that mark phases and record checkpoints."""

    @property
    def ledger(self) -> RecordsSaves: ...


class SavesInJax(MarksPhases, Reports, Protocol):
    """For hooks in libraries whose processes each save a part."""


class RecordsSaves(Protocol):
    """The ledger of checkpoints: makes functions that save record it, and those that load look first."""

    def saves(
        self,
        kind: str,
        writer: Callable[[], str],
        where: Callable[..., Any] | None = None,
        *,
        together: Callable[..., bool] = ...,
        mine: Callable[[str], bool] = ...,
        is_done: Callable[[Any], Callable[[], bool]] = ...,
        by_others: bool = ...,
    ) -> Callable[[Any], Callable[..., Any]]: ...
    def fills(self, writer: Callable[[], str], where: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]: ...
    def loads(
        self, where: Callable[..., Any], *, together: Callable[..., bool] = ...
    ) -> Callable[[Any], Callable[..., Any]]: ...
    def suspect(self, after_step: int, why: str) -> None: ...
    @property
    def last_saved(self) -> tuple[int, float] | None: ...


class LoadsTogether(Reports, FailsSafely, Protocol):
    """For ranks that load one checkpoint together."""

    @property
    def exchange(self) -> Exchange | None: ...
    def await_peers(self, said: Callable[[], bool], *, at_least: float = 0.0) -> bool: ...


class SavesCheckpoints(Strict, LoadsTogether, Protocol):
    """For the ledger of checkpoints."""

    @property
    def supervised(self) -> bool: ...

    def open(self) -> None: ...


class Recurs(FailsSafely, Protocol):
    """For hooks that the guard's thread puts back."""

    @property
    def pulse(self) -> Schedule: ...


class Compares(Talks, AsksForProfile, Protocol):
    """For comparisons between ranks."""

    @property
    def trains_in_thread(self) -> int: ...


class BatchChecks(Protocol):
    """The contract of one stream of batches."""

    labels: dict[str, tuple[float, float]]
    dtypes: dict[str, str]
    shapes: dict[str, tuple[int | None, ...]]
    finite: bool

    @property
    def last(self) -> str: ...
    @property
    def declared(self) -> bool: ...
    @property
    def signature(self) -> dict[str, str]: ...

    def declare_like(self, other: BatchChecks) -> None: ...
    def see(self, batch: Any, values: Values | None = None) -> None: ...
    def not_finite(self, name: str) -> None: ...
    def at_end(self) -> None: ...


class CountsSteps(Phases, Protocol):
    """Count steps and record what a step does: what hooks call while the training runs."""

    steps: int
    phase_now: int
    lean: bool
    by_hand: bool
    spent_ns: int
    values: Values | None

    @property
    def write(self) -> Write: ...
    @property
    def strict(self) -> bool: ...
    @property
    def trainer(self) -> int: ...
    @property
    def trains_in_thread(self) -> int: ...
    @property
    def batches(self) -> BatchChecks: ...
    @property
    def at_catching_up(self) -> list[Callable[[], None]]: ...

    def step_done(self, by_hand: bool = False) -> None: ...
    def see_batch(self, batch: Any) -> None: ...
    def pause(self, phase: int) -> None: ...
    def plan(self, name: str) -> int: ...
    def file(self, name: str) -> int: ...


class Waits(Protocol):
    """The wait of this rank for the others, while the framework forms a world."""

    def look(self) -> None: ...


class FormsWorld(Protocol):
    """Say which world the framework forms, and what goes on while it does."""

    who: Identity
    framework: str | None
    waiting: Waits | None

    @property
    def pulse(self) -> Schedule: ...
    @property
    def folder(self) -> Path | None: ...
    @property
    def notes_path(self) -> Path | None: ...
    @property
    def at_close(self) -> list[Callable[[], None]]: ...
    @property
    def data_parallel(self) -> list[Callable[[], bool]]: ...

    def open(self) -> None: ...
    def tell_who(self) -> None: ...
    def world_formed(self, size: int, index: int | None, framework: str) -> None: ...
    def trains_in(self, size: int, framework: str) -> None: ...
    def answer_buddies(self, framework: str) -> None: ...


class Arrives(FormsWorld, Reports, FailsSafely, Protocol):
    """For the rendezvous of a framework."""


class Adapts(CountsSteps, Talks, Arrives, Feeds, AsksForProfile, Protocol):
    """All that the hooks in one framework need together; what its adapter's shared state holds."""

    @property
    def ledger(self) -> RecordsSaves: ...
    @property
    def fingerprints(self) -> Fingerprinted: ...
    @property
    def buddy_every(self) -> int: ...
    @property
    def at_buddy(self) -> list[Callable[[], None]]: ...
    @property
    def usual_step_s(self) -> float | None: ...


class HasRecords(Reports, Protocol):
    """Reports, and the last records of this rank."""

    def recent(self, most: int) -> tuple[Record, ...]: ...


class Speaks(Reports, Protocol):
    """Reports, what this process is known to be, and the thread that trains."""

    @property
    def trains_in_thread(self) -> int: ...
    @property
    def notes_path(self) -> Path | None: ...
    @property
    def batches(self) -> BatchChecks: ...

    def tell_who(self) -> None: ...


class Follows(Protocol):
    """The guard's thread, and how far the training is."""

    @property
    def steps(self) -> int: ...
    @property
    def pulse(self) -> Schedule: ...
