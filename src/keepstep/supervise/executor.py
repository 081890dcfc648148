# SPDX-License-Identifier: Apache-2.0
"""What the supervisor needs of those who run attempts: this machine, or agents on several."""

from __future__ import annotations

import contextlib
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.report import Report
from keepstep.store.fallback_folder import FindRoom
from keepstep.store.pause_request import WANTED
from keepstep.store.reserved_space import Reserve
from keepstep.supervise.attempt import Attempt
from keepstep.supervise.attempt_context import Means, Outcome
from keepstep.supervise.decide.attempt_progress import AttemptProgress
from keepstep.supervise.decide.remedy import Remedy
from keepstep.supervise.decide.situation import Situation
from keepstep.supervise.options import RunOptions
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.start.ending import Reaper
from keepstep.supervise.start.interrupts import Interrupts
from keepstep.supervise.start.launch import launches
from keepstep.supervise.start.spares import SparePool
from keepstep.supervise.watch.alarms import Alarms


@dataclass
class Applied:
    """What remedies have changed for the attempts to come."""

    names: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    by_node: dict[int, dict[str, str]] = field(default_factory=dict)
    """Variables of one node's ranks."""
    addresses: dict[int, str] = field(default_factory=dict)
    """Where the others reach a node, if not where it says."""
    ports: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Ports of a node that the others are known to reach."""

    fewer: int = 0
    """Ranks that the run goes on without."""

    def take(self, remedy: Remedy) -> None:
        self.names.append(remedy.name)
        self.variables.update(remedy.variables)
        self.limits.update(remedy.limits)
        for node, variables in remedy.by_node:
            self.by_node.setdefault(node, {}).update(variables)
        self.addresses.update(remedy.addresses)
        self.ports.update(remedy.ports)

    def variables_of(self, node: int) -> dict[str, str]:
        """Of the ranks on a node."""
        return {**self.variables, **self.by_node.get(node, {})}


class Superseded(Exception):
    """Another process leads the run now, or this one can no longer be sure that it does. Raised by attempts."""

    def __init__(self, why: str, attempt: int) -> None:
        super().__init__(why)
        self.attempt = attempt
        """The newest that was started."""


class Overtaken(Exception):
    """An agent has told of an attempt of an earlier leader, so this one needs a higher number. Nothing was started."""


class Page(Protocol):
    """What is written down about an attempt."""

    @property
    def number(self) -> int: ...
    @property
    def folder(self) -> Path: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def step_s(self) -> float | None: ...
    @property
    def has_gaps(self) -> bool: ...
    @property
    def unwritten(self) -> Sequence[Evidence[Fact]]: ...
    @property
    def parts(self) -> Sequence[Path]:
        """Folders of their own, where several nodes have each written one."""


class Trial(Page, Protocol):
    """One attempt: ``begin``, then ``watch`` (again, after a ``hold``), then ``end``."""

    env: Mapping[str, str]
    """What its ranks are started with."""

    def move(self, find_room: FindRoom, outcome: Outcome) -> None:
        """Once it has failed: go on in another folder if its own cannot be written, where its evidence can move."""

    def begin(self) -> None: ...
    def watch(self) -> Outcome: ...
    def hold(self, wait_s: float) -> None: ...
    def end(self, outcome: Outcome) -> None: ...
    def look_further(self, report: Report, progress: AttemptProgress) -> bool:
        """Once it has failed: look at what takes longer, if the report gives reason to. True: there is new evidence."""

    def goes_on(self, outcome: Outcome) -> bool:
        """Whether ranks that had stopped have moved since: looking further takes its time."""

    def offers(self, report: Report, progress: AttemptProgress) -> tuple[Remedy, ...]:
        """What could be done about the report's root cause. Changes nothing."""

    def close(self) -> None: ...
    def situation(
        self, outcome: Outcome, report: Report, progress: AttemptProgress, *, remedies: tuple[str, ...] = ()
    ) -> Situation: ...


class Crew(Protocol):
    """Makes attempts."""

    @property
    def first_attempt(self) -> int:
        """The number of the next one. Not 0 if another agent led the run before."""

    def attempt(
        self, number: int, folder: Path, exchange: Path, applied: Applied, *, may_start_over: bool
    ) -> Trial: ...

    def close(self, status: int) -> None:
        """Leave nothing behind."""


class ThisMachine:
    """All ranks run here."""

    first_attempt = 0

    def __init__(
        self, asked: RunOptions, env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts, reserve: Reserve
    ) -> None:
        self._asked, self._env = asked, env
        self._reaper = Reaper(secrets.token_hex(12))
        self._pool = SparePool(start=self._reaper.start, say=terminal.say, on=asked.spares and not asked.job.as_given)
        for folder in self._pool.variables.values():
            self._reaper.remove(folder)
        self._means = Means(
            job=asked.job,
            reaper=self._reaper,
            pool=self._pool,
            terminal=terminal,
            interrupted=lambda: interrupts.signal,
            hurry=lambda: interrupts.again,
            first_signal=lambda: interrupts.first,
            grace_s=asked.grace_s,
            hang_s=asked.hang_timeout_s,
            reserve=reserve,
            forecasts=asked.forecasts,
            alarms=Alarms(asked.settings, terminal.say, stop=lambda: interrupts.note(signal.SIGTERM)),
        )

    @property
    def _own_variables(self) -> dict[str, str]:
        found = {"KEEPSTEP_GRACE": f"{self._asked.grace_s:g}"}
        return found if self._asked.job.servers else {**found, WANTED: "on"}

    def attempt(self, number: int, folder: Path, exchange: Path, applied: Applied, *, may_start_over: bool) -> Trial:
        job = replace(self._asked.job, members=self._asked.job.members[: len(self._asked.job.members) - applied.fewer])
        self._means.job = job
        started = launches(
            job,
            attempt=number,
            folder=folder,
            exchange=exchange,
            token=self._reaper.token,
            env=self._env,
            more={**applied.variables, **self._pool.variables, **self._own_variables},
            limits=tuple(applied.limits.items()),
        )
        self._means.may_start_over = may_start_over
        return Attempt(number, folder, started, self._means)

    def close(self, status: int) -> None:
        with contextlib.suppress(Exception):
            self._pool.close()
        self._reaper.kill_all(patience_s=5.0)
        self._reaper.bye()
        self._means.looks.shutdown(wait=False, cancel_futures=True)
