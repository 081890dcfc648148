# SPDX-License-Identifier: Apache-2.0
"""How the guards of all ranks talk: contracts, and messages on a topic. No wait here is unbounded."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstep.errors import OutOfStep
from keepstep.guard import own_rank
from keepstep.guard.agree.collected_reports import NotesOfAll
from keepstep.guard.agree.contract import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    PATIENCE_S,
    Contracts,
    ContractVerdict,
    Open,
    WaitBudget,
    bounded,
)
from keepstep.guard.exchange import Exchange, key_of
from keepstep.guard.record.user_line import line_of_caller
from keepstep.signals.contracts import WHERE, Subject, say_lines, shortfall

if TYPE_CHECKING:
    from keepstep.guard.protocols import Schedule


class Peers(ABC):
    """The part of a session that talks to other ranks."""

    pulse: Schedule
    supervised: bool
    folder: Path | None
    steps: int

    def __init__(self, who: own_rank.Identity) -> None:
        self.who = who
        self._ordinals: dict[str, int] = {}
        self._patience = WaitBudget()
        self._exchange: Exchange | None = None
        self._contracts: Contracts | None = None
        self._gathering: NotesOfAll | None = None
        self._lock = threading.RLock()

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def note(self, fact: str, fields: dict[str, Any], quote: str) -> None: ...

    @abstractmethod
    def say(self, text: str) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...

    @abstractmethod
    def is_off(self, name: str) -> bool: ...

    @property
    @abstractmethod
    def usual_step_s(self) -> float | None: ...

    @abstractmethod
    def part(self, name: str) -> AbstractContextManager[None]: ...

    def use_exchange(self, exchange: Exchange) -> None:
        """From now on guards talk through this; the first usable one is kept."""
        rank, world = self.who.rank, self.who.world
        if self._exchange is not None or rank is None or not world or world < 2:
            return
        self._exchange = exchange
        prefix = f"keepstep/{self.who.attempt}"
        self._contracts = Contracts(exchange, rank, world, prefix, self._settled, self._silent)
        self.pulse.every(0.2, "contracts", self._contracts.poll)
        if not self.supervised:
            self._gathering = NotesOfAll(self, exchange, prefix)

    def agree(
        self, subject: str, stated: Mapping[str, str], *, patience: float = PATIENCE_S, ranks: Iterable[int] = ()
    ) -> None:
        """Before a step that all ranks must take alike: state this rank's side and wait, within bounds, for the others.

        Raises OutOfStep where they differ. A rank that does not answer in time is noted, and the training goes on: all
        waits together are bounded (:class:`WaitBudget`), one wait also by ``patience``. Later findings still count.
        ``ranks``: only these take the step; the subject must then name them.
        """
        opened = self._state(subject, stated, certain=True, ranks=ranks)
        if opened is None or self._contracts is None:
            return
        verdict = None
        with self.part("contracts"):
            began = time.monotonic()
            verdict = self._contracts.wait(opened, min(patience, self._patience.left(self.steps, self.usual_step_s)))
            self._patience.waited(time.monotonic() - began, answered=verdict is not None)
        if verdict is not None and verdict.differences:
            with contextlib.suppress(Exception):
                self.flush()
            raise OutOfStep(
                f"rank {self.who.rank}: the ranks are about to run different things ({subject}): "
                + "; ".join(map(str, verdict.differences[:3]))
                + say_lines(verdict.where),
                hint="make every rank build the same model, batch and program; `keepstep why` says more",
            )

    def await_peers(self, said: Callable[[], bool], *, at_least: float = 0.0) -> bool:
        """Wait until the others have answered, for as long as this rank may still wait for others.

        ``at_least``: the user asked for this wait, so it may take so long, and other waits do not become shorter.
        """
        answered = False
        with self.part("contracts"):
            began, pause, pausing = time.monotonic(), FIRST_PAUSE_S, threading.Event()
            end = began + max(at_least, self._patience.left(self.steps, self.usual_step_s))
            while not (answered := said()) and time.monotonic() < end:
                pausing.wait(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_S)
            if not at_least:
                self._patience.waited(time.monotonic() - began, answered=answered)
        return answered

    def compare(self, subject: str, stated: Mapping[str, str], *, ordinal: int | None = None) -> None:
        """State this rank's side of something; the comparison goes on in the background and only reports."""
        self._state(subject, stated, certain=False, ordinal=ordinal)

    def state(self, subject: str, stated: Mapping[str, str], *, where: str | None = None) -> None:
        """State this rank's side without waiting: at line ``where``, it already does what all ranks must do alike."""
        self._state(subject, stated, certain=True, where=where)

    def ahead(self, subject: str, rank: int) -> dict[str, str] | None:
        """What a rank has stated in the next contract on a subject, which this rank has not reached yet."""
        if self._contracts is None or self.is_off("contracts"):
            return None
        return self._contracts.peek(subject, self._ordinals.get(subject, 0), rank)

    @property
    def exchange(self) -> Exchange | None:
        """What the guards of all ranks talk through."""
        return self._exchange

    def _state(
        self,
        subject: str,
        stated: Mapping[str, str],
        *,
        certain: bool,
        ordinal: int | None = None,
        ranks: Iterable[int] = (),
        where: str | None = None,
    ) -> Open | None:
        self.open()
        if certain and (where := where or line_of_caller()):
            stated = {WHERE: where, **stated}
        with self._lock:
            number = self._ordinals.get(subject, 0) if ordinal is None else ordinal
            self._ordinals[subject] = number + 1
        opened = None
        if self._contracts is not None and not self.is_off("contracts"):
            with self.part("contracts"):
                opened = self._contracts.state(subject, number, stated, certain=certain, ranks=ranks)
        fields = {"subject": subject, "ordinal": number, "stated": list(bounded(stated).items()), "certain": certain}
        self.note(
            "ContractStated",
            fields,
            f"{subject} #{number}: " + "; ".join(f"{k} {v}" for k, v in list(stated.items())[:7]),
        )
        return opened

    def _settled(self, opened: Open, verdict: ContractVerdict, before: bool) -> None:
        rank = self.who.rank or 0
        for each in verdict.differences:
            fields = {"subject": opened.subject, "ordinal": opened.ordinal, "what": each.what, "values": each.values}
            fields |= {"odd": each.odd if each.kept else (), "places": list(verdict.where.items())}
            fields |= {"certain": opened.certain, "before": before and opened.certain}
            self.note("ContractBroken", fields, f"{opened.subject}: {each}{say_lines(verdict.where)}")
        if rank == 0 or any(rank in each.odd for each in verdict.differences):
            short = shortfall(verdict.differences[0]) if opened.subject == Subject.BATCHES else None
            told = f"ranks differ in {opened.subject}: " + "; ".join(map(str, verdict.differences[:2]))
            self.say((short or told) + say_lines(verdict.where))

    def _silent(self, opened: Open, missing: tuple[int, ...]) -> None:
        waited = time.monotonic() - opened.began
        fields = {
            "subject": opened.subject,
            "ordinal": opened.ordinal,
            "missing": missing,
            "waited_s": round(waited, 1),
        }
        who = ", ".join(map(str, missing[:8]))
        self.note(
            "PeerSilent", fields, f"no answer from rank {who} on {opened.subject} #{opened.ordinal} in {waited:.0f} s"
        )

    def tell_peers(self, topic: str, text: str) -> bool:
        """Publish this rank's newest message on a topic; False where the exchange cannot replace the one before."""
        if self._exchange is None or not getattr(self._exchange, "overwrites", True) or self.is_off("words to peers"):
            return False
        with self.part("words to peers"):
            self._exchange.put(key_of(self.who, topic, self.who.rank), text)
            return True
        return False

    def heard(self, topic: str) -> dict[int, str]:
        """The newest message of every other rank on a topic."""
        found: dict[int, str] = {}
        if self._exchange is None or not self.who.world or self.is_off("words of peers"):
            return found
        with self.part("words of peers"):
            for rank in range(self.who.world):
                if rank != self.who.rank:
                    text = self._exchange.get(key_of(self.who, topic, rank))
                    if text is not None:
                        found[rank] = text
        return found

    def heard_from(self, topic: str, rank: int) -> str | None:
        """The newest message of one rank on a topic. Raises what the exchange raises."""
        return self._exchange.get(key_of(self.who, topic, rank)) if self._exchange is not None else None
