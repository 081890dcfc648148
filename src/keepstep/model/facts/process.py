# SPDX-License-Identifier: Apache-2.0
"""How processes ended, or were asked to."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One line of a stack. Native frames have a ``library`` (its base name, empty if unknown), its path as ``file``."""

    function: str
    file: str | None = None
    line: int | None = None
    library: str | None = None

    @property
    def is_native(self) -> bool:
        return self.library is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExited(Fact):
    """A launcher, shell or scheduler reported that a process ended (``rank``: whose, if said)."""

    reporter: str
    code: int | None = None
    signal: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    node: str | None = None
    first: bool = False
    """Whether the reporter says that this one failed first."""
    failed_at: float | None = None
    """When it failed, in seconds by the reporter's clock: only for comparison with other reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherRestartedRanks(Fact):
    """A rank of the user's own launcher failed, the launcher started its ranks again, and the run ended well."""

    code: int | None = None
    signal: str | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReplaced(Fact):
    """A worker of a parameter-server training ended and was restarted alone, at its address; the others continued."""

    index: int
    code: int | None = None
    signal: str | None = None
    pid: int | None = None
    times: int = 1
    """How many times in a row."""
    steps: int | None = None
    """How many steps the coordinator had handed out by then."""
    left_in: str | None = None
    """The folder with what the lost process printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedWith(Fact):
    """What every rank was started with, according to its launcher."""

    variables: tuple[str, ...] = ()
    """``NAME=VALUE`` of the variables that change how Python and the frameworks behave."""
    limits: tuple[tuple[str, int], ...] = ()
    """Soft limits by their names in the module ``resource``, without RLIMIT_; -1: unlimited."""
    ranks: int | None = None
    """How many were started; None if the user's own launcher does that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalSignal(Fact):
    """A signal hit a process: its own handler, faulthandler, MPI or the kernel said so."""

    signal: str
    pid: int | None = None
    library: str | None = None
    frames: tuple[Frame, ...] = ()
    extensions: tuple[str, ...] = ()
    """The loaded extension modules, if the report lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeAbort(Fact):
    """Native code gave up by itself: a failed CHECK, ``std::terminate``, a glibc or LLVM abort."""

    what: str
    where: str | None = None
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationRequested(Fact):
    """A process or job was asked to end. ``by``: agent, scheduler, user, or None."""

    signal: str | None = None
    by: str | None = None
    reason: str | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionRaised(Fact):
    """A Python exception with its traceback, as printed. ``lines``: how many lines it took."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    lines: int = 1
    chained: bool = False
    """Another exception followed it (``The above exception...``/``During handling...``)."""
    place: str | None = None
    """thread, loader worker, remote task... if the text says so; None for the main program."""
    logged: bool = False
    """Whether a logger (or "Exception ignored in") printed it, so the program may have continued."""
    caught: bool = False
    """Whether it was raised under a function that logs any exception and continues."""
    code: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The source lines of its innermost frames, as far as printed; the last is where it was raised."""


class Loudness(Enum):
    """How severe a line is: by its level, or by its words if it has none."""

    WARNED = 1
    COMPLAINED = 2
    ERROR = 3
    FATAL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSaid(Fact):
    """One of a stream's last lines looks like an error, whatever it says; with the lines that continue it."""

    text: str
    loudness: Loudness
    below: int = 0
    """How many more lines its stream has."""
    share: float = 1.0
    """The share of errors among its stream's last lines: a log may be little else, or have one among many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFrameSeen(Fact):
    """A line of a native stack among the last lines of a log, whichever process crashed."""

    function: str | None = None
    library: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNamed(Fact):
    """An error names the task where it arose, as TensorFlow does below its message (``rank``: which)."""

    role: str | None = None
    """If tasks are counted within roles, the task's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracebackCut(Fact):
    """A Python traceback that the log cuts off before the exception itself."""

    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDump(Fact):
    """The stack of one thread of a process that was alive or that left a core. Innermost first."""

    frames: tuple[Frame, ...]
    thread: str | None = None
    pid: int | None = None
    holds_gil: bool | None = None
    current: bool = False
    """Whether this thread crashed or was doing the work (main thread)."""
    living: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDump(Fact):
    """A core file and what its notes say."""

    path: str
    signal: str | None = None
    pid: int | None = None
    executable: str | None = None
    machine: str | None = None
    address: int | None = None
    readable: bool = True
    sent_by: int | None = None
    """The process that sent the signal: then nothing crashed. 0: one that is invisible from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSeen(Fact):
    """A process of a live job. ``state`` is the kernel's letter."""

    pid: int
    command: str
    state: str | None = None
    waits_in: str | None = None
    age_s: float | None = None
    watched_s: float | None = None
    """How long it was watched; the next two say what it did in that time."""
    cpu_s: float | None = None
    switches: int | None = None
    """How often its main thread went back to sleep; 0: it never woke up."""
    still: bool | None = None
    """Whether its main thread was at the same place each time."""
    job: str | None = None
    """What the processes of one job have in common (its address, cluster or session)."""
    world: int | None = None
    """The number of ranks, according to its launcher."""
    meets: str | None = None
    """Where it meets the other ranks, according to its arguments or variables."""
