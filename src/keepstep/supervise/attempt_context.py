# SPDX-License-Identifier: Apache-2.0
"""What the attempts of a run share, what each has started, and what a watch ends with."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.store.reserved_space import Reserve
from keepstep.supervise.decide.situation import Happened
from keepstep.supervise.show.run_terminal import Terminal
from keepstep.supervise.start.ending import Reaper
from keepstep.supervise.start.launch import Job
from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.start.spares import SparePool
from keepstep.supervise.start.started_process import StartedProcess
from keepstep.supervise.watch.alarms import Alarms
from keepstep.supervise.watch.hang_detector import Stop
from keepstep.supervise.watch.history_recorder import Measurements


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why something must be decided now."""

    happened: Happened
    rank: int | None = None
    exit: Exit | None = None
    stop: Stop | None = None
    given_up: str | None = None
    """Why a lost worker is not started again alone, and the run ends with it."""


@dataclass
class AttemptStarted:
    """A process that was started, and how it ended."""

    member: StartedProcess
    process: subprocess.Popen[bytes]
    exit: Exit | None = None

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass
class Means:
    """What attempts of one run share."""

    job: Job
    reaper: Reaper
    pool: SparePool | None
    terminal: Terminal
    interrupted: Callable[[], int | None]
    """The signal that asked the run to end, if any."""
    hurry: Callable[[], bool]
    first_signal: Callable[[], int] = lambda: signal.SIGTERM
    grace_s: float = 10.0
    hang_s: float | None = None
    reserve: Reserve = field(default_factory=Reserve)
    """Room on the disk for what has to be written when it is full."""
    explains: bool = True
    """Whether diagnoses are made in this process."""
    may_start_over: bool = False
    """An earlier attempt saved more work than may be lost, which a start from the first step would overwrite."""
    forecasts: tuple[Evidence[Fact], ...] = ()
    """What `keepstep check memory` had said of the training."""
    alarms: Alarms | None = None
    """Limits on what is measured; None: the usual ones, which only warn."""
    measured: Callable[[Measurements], None] | None = None
    """Who judges what is measured, if not this process."""
    pauses: dict[str, float] = field(default_factory=dict)
    """The longest pauses that ended by themselves, by kind."""
    looks: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
