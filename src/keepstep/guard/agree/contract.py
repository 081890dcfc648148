# SPDX-License-Identifier: Apache-2.0
"""Contracts: every rank states its side, rank 0 compares, all learn the verdict. No wait is unbounded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from keepstep.guard.exchange import Exchange
from keepstep.signals.contracts import Difference, differences, lines

PATIENCE_S = 10.0
"""How long a rank waits in total for answers before its first step: others may still import, load or compile."""
FEW_STEPS, LEAST_S, MOST_S = 3, 2.0, 30.0
"""Once it trains: a few usual steps in total, at least long enough for another guard to answer, at most the last."""
PROMPT_S = 1.0
"""An answer within this time shows that the others are there: between nodes each one takes some tenths of a second,
and many must not use up what a rank may wait for others that still start."""
GIVEN_UP_S = 600.0
"""How long the guard's thread keeps waiting, in the background, for ranks that did not answer."""
LONGEST_VALUE = 2000
MOST_STATED = 400
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05


@dataclass(eq=False)
class Open:
    """A contract that is not settled yet."""

    subject: str
    ordinal: int
    stated: dict[str, str]
    certain: bool
    ranks: tuple[int, ...]
    """The ranks that state it; the first one compares."""
    began: float = field(default_factory=time.monotonic)
    heard: dict[int, dict[str, str]] = field(default_factory=dict)
    silence_told: bool = False
    waited_for: bool = False
    """The training's own thread waits for it: the guard's thread leaves it alone."""

    @property
    def name(self) -> str:
        return f"{self.subject}/{self.ordinal}"


@dataclass(frozen=True)
class ContractVerdict:
    differences: tuple[Difference, ...]
    where: dict[int, str] = field(default_factory=dict)
    """The script lines of the ranks that differ."""


class WaitBudget:
    """How long this rank may still wait for other ranks, over all contracts together: many contracts cannot add up."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._trains = False

    def left(self, steps: int, usual_step_s: float | None) -> float:
        if steps and not self._trains:
            self._trains, self._spent = True, 0.0
        allowed = min(MOST_S, max(LEAST_S, FEW_STEPS * (usual_step_s or 0.0))) if steps else PATIENCE_S
        return max(0.0, allowed - self._spent)

    def waited(self, seconds: float, *, answered: bool) -> None:
        """Once it trains, an answer shows that the others are there and in step: the count starts again."""
        if answered and self._trains:
            self._spent = 0.0
        elif not answered or seconds > PROMPT_S:
            self._spent += seconds


class Contracts:
    """All contracts of one rank. Calls ``settled(open, verdict, before)`` or ``silent(open, missing)`` at the end."""

    def __init__(
        self,
        exchange: Exchange,
        rank: int,
        world: int,
        prefix: str,
        settled: Callable[[Open, ContractVerdict, bool], None],
        silent: Callable[[Open, tuple[int, ...]], None],
    ) -> None:
        self._exchange, self._rank, self._world, self._prefix = exchange, rank, world, prefix
        self._settled, self._silent = settled, silent
        self._open: list[Open] = []
        self._lock = threading.Lock()

    def state(
        self, subject: str, ordinal: int, stated: Mapping[str, str], *, certain: bool, ranks: Iterable[int] = ()
    ) -> Open:
        """Publish this rank's side of the ``ordinal``-th contract on a subject, of all ranks or of those named."""
        with self._lock:
            members = tuple(sorted(ranks)) or tuple(range(self._world))
            opened = Open(subject, ordinal, bounded(stated), certain, members)
            opened.heard[self._rank] = opened.stated
            self._open.append(opened)
            self._exchange.put(self._key(opened, self._rank), json.dumps(opened.stated))
        return opened

    def wait(self, opened: Open, patience: float = PATIENCE_S) -> ContractVerdict | None:
        """Wait for the verdict, at most this long; None: there is none yet, and the thread keeps looking."""
        end, pause, pausing = time.monotonic() + patience, FIRST_PAUSE_S, threading.Event()
        opened.waited_for = True
        try:
            while True:
                verdict = self._look(opened)
                if verdict is not None:
                    self._close(opened, verdict, before=True)
                    return verdict
                if time.monotonic() >= end:
                    self._tell_silence(opened)
                    return None
                pausing.wait(pause)  # time.sleep fails under libfaketime
                pause = min(pause * 1.5, LONGEST_PAUSE_S)
        finally:
            opened.waited_for = False

    def peek(self, subject: str, ordinal: int, rank: int) -> dict[str, str] | None:
        """What a rank has stated in a contract, which need not be open here. May raise whatever the exchange raises."""
        text = self._exchange.get(f"{self._prefix}/{subject}/{ordinal}/r{rank}")
        found = None if text is None else json.loads(text)
        return found if isinstance(found, dict) else None

    def poll(self) -> None:
        """Look once at every open contract. Called by the guard's thread."""
        for opened in [each for each in self._open if not each.waited_for]:
            verdict = self._look(opened)
            if verdict is not None:
                self._close(opened, verdict, before=False)
            elif time.monotonic() - opened.began > PATIENCE_S:
                self._tell_silence(opened)
                if time.monotonic() - opened.began > GIVEN_UP_S:
                    self._forget(opened)

    def _look(self, opened: Open) -> ContractVerdict | None:
        with self._lock:
            if self._rank != opened.ranks[0]:
                text = self._exchange.get(f"{self._prefix}/{opened.name}/verdict")
                return None if text is None else _read_verdict(text)
            for rank in opened.ranks:
                if rank not in opened.heard and (text := self._exchange.get(self._key(opened, rank))) is not None:
                    opened.heard[rank] = json.loads(text)
            if len(opened.heard) < len(opened.ranks):
                return None
            found = differences(opened.heard)
            verdict = ContractVerdict(found, lines(opened.heard, found))
            self._exchange.put(f"{self._prefix}/{opened.name}/verdict", _write_verdict(verdict))
            return verdict

    def _tell_silence(self, opened: Open) -> None:
        if self._rank == opened.ranks[0] and not opened.silence_told:
            opened.silence_told = True
            self._silent(opened, tuple(rank for rank in opened.ranks if rank not in opened.heard))

    def _close(self, opened: Open, verdict: ContractVerdict, *, before: bool) -> None:
        if self._forget(opened) and verdict.differences:
            self._settled(opened, verdict, before)

    def _forget(self, opened: Open) -> bool:
        with self._lock:
            if opened in self._open:
                self._open.remove(opened)
                return True
        return False

    def _key(self, opened: Open, rank: int) -> str:
        return f"{self._prefix}/{opened.name}/r{rank}"


def bounded(stated: Mapping[str, str]) -> dict[str, str]:
    """Cut to the longest allowed message, in the same way on every rank."""
    kept = {str(name): str(value)[:LONGEST_VALUE] for name, value in list(stated.items())[:MOST_STATED]}
    if len(stated) > MOST_STATED:
        kept["entries in all"] = str(len(stated))
    return kept


def _write_verdict(verdict: ContractVerdict) -> str:
    return json.dumps(
        {"differences": [[each.what, each.values, each.kept] for each in verdict.differences], "where": verdict.where}
    )


def _read_verdict(text: str) -> ContractVerdict:
    read = json.loads(text)
    found = (
        Difference(what, tuple((value, tuple(ranks)) for value, ranks in values), kept)
        for what, values, kept in read["differences"]
    )
    return ContractVerdict(tuple(found), {int(rank): line for rank, line in read["where"].items()})
