# SPDX-License-Identifier: Apache-2.0
"""The training processes on this host: which they are, their ranks and their states."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from keepstep.base.launchers import LAUNCHERS, MODULES, PROGRAMS
from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.proc_stat import read_stat
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.parse.scan.lines.rank_variables import JobMember, meeting_place, member
from keepstep.sources.recorded.open_boxes import left_by

_PROC = Path("/proc")
_MAPPED = lazy_pattern(
    rb"/(?:libtorch_cpu|libtensorflow_cc|libtensorflow_framework|_pywrap_tensorflow\w*|_jax|xla_extension)\.[^\s/]*so"
)
_PYTHON = lazy_pattern(r"(?:^|/)(?:python|pypy|pt_main_thread|ray::)[\w.:]*$")
_LAUNCHER = lazy_pattern(
    rf"(?:^|/)(?:{'|'.join(PROGRAMS)}|raylet|keepstep|tensorboard|jupyter[\w\-]*|pytest)$"
    rf"|^(?:{'|'.join(MODULES).replace('.', chr(92) + '.')}|deepspeed\.launcher\.\w+|keepstep(?:\.\w+)*|pytest)$"
)
_HELPER = lazy_pattern(
    r"multiprocessing\.(?:resource_tracker|semaphore_tracker|forkserver)|torch_shm_manager|compile_worker"
)
_SPARE = "keepstep.guard.spare"
"""In the command of a warm spare of `keepstep run`; its last arguments are its socket's number and its record."""
_RANKED = {name for each in LAUNCHERS if each.only_ranks for name in each.rank}
MOST_MAPS = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """What the kernel says about a process at one moment."""

    at: float
    state: str
    cpu_s: float
    switches: int | None
    waits_in: str | None
    transferred: int | None
    """Bytes read and written so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One process that looks like a rank of a training."""

    pid: int
    parent: int
    command: str
    started: float
    member: JobMember | None
    job: str
    """The same for all processes of one job: what their variables share or where they meet, else their session."""
    meets: str | None = None
    """Where they meet, by its arguments or variables."""


def read(pid: int) -> ProcessReading | None:
    """A reading of one process; None if it has ended."""
    try:
        process = psutil.Process(pid)
        cpu = process.cpu_times()
        return ProcessReading(
            at=time.time(),
            state=_state(pid) or "?",
            cpu_s=cpu.user + cpu.system,
            switches=_switches(pid),
            waits_in=_waits_in(pid),
            transferred=_transferred(pid),
        )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def find(pids: list[int] | None = None) -> tuple[list[Training], list[Coverage]]:
    """The trainings on this host, or the given processes. Launchers and loader workers are left out."""
    if not _PROC.is_dir():
        why = "processes are read from /proc, which this system does not have"
        return [], [Coverage(what="processes on this host", state=CoverageState.UNAVAILABLE, why=why)]
    if pids is not None:
        return _given(pids)
    candidates: dict[int, tuple[Training, bool]] = {}
    hidden = 0
    ours = _ourselves()
    for process in psutil.process_iter():
        if process.pid in ours:
            continue
        try:
            found = _candidate(process)
        except psutil.AccessDenied:
            hidden += 1
            continue
        except (psutil.NoSuchProcess, OSError):
            continue
        if found is not None:
            candidates[process.pid] = found
    trainings = _ranks_only(candidates)
    coverage = [Coverage(what="processes on this host", state=CoverageState.CHECKED)]
    if hidden:
        why = "they belong to other users"
        coverage.append(Coverage(what=f"{hidden} Python processes", state=CoverageState.UNAVAILABLE, why=why))
    return trainings, coverage


def _given(pids: list[int]) -> tuple[list[Training], list[Coverage]]:
    trainings: list[Training] = []
    coverage: list[Coverage] = []
    for pid in dict.fromkeys(pids):
        try:
            trainings.append(_training(psutil.Process(pid)))
        except psutil.NoSuchProcess:
            coverage.append(
                Coverage(what=f"pid {pid}", state=CoverageState.UNAVAILABLE, why="there is no such process")
            )
        except psutil.AccessDenied:
            why = "it belongs to another user"
            coverage.append(Coverage(what=f"pid {pid}", state=CoverageState.UNAVAILABLE, why=why))
    if trainings:
        coverage.append(Coverage(what="the given processes", state=CoverageState.CHECKED))
    return sorted(trainings, key=_order), coverage


def _candidate(process: psutil.Process) -> tuple[Training, bool] | None:
    """A process that runs Python with a framework, and whether it has one loaded itself."""
    name = process.name()
    arguments = process.cmdline()
    if not arguments or not (_PYTHON.search(name) or _PYTHON.search(arguments[0])):
        return None
    if _is_launcher(arguments) or _HELPER.search(" ".join(arguments[:6])) or _is_spare(process.pid, arguments):
        return None
    if not _maps_framework(process.pid):
        return None
    return _training(process), True


def _training(process: psutil.Process) -> Training:
    arguments = process.cmdline()
    try:
        environment = process.environ()
    except (psutil.AccessDenied, OSError):
        environment = {}
    who, meets = member(environment, arguments), meeting_place(environment, arguments)
    return Training(
        pid=process.pid,
        parent=process.ppid(),
        command=_command(arguments) or process.name(),
        started=process.create_time(),
        member=who,
        job=_run_of(environment) or (who.job if who else None) or meets or _session(process.pid),
        meets=meets,
    )


def _is_spare(pid: int, arguments: list[str]) -> bool:
    """Whether it is a warm spare that still waits. One that has become a rank has closed its socket."""
    if len(arguments) < 4 or not any(_SPARE in each for each in arguments[:-2]) or not arguments[-2].isdecimal():
        return False
    try:
        return os.readlink(_PROC / str(pid) / "fd" / arguments[-2]).startswith("socket:") and not left_by([pid])
    except OSError:
        return False


def _run_of(environment: Mapping[str, str]) -> str | None:
    """The `keepstep run` it belongs to. A spare that became a rank still shows the addresses of an earlier attempt."""
    supervisor = environment.get("KEEPSTEP_SUPERVISOR")
    return f"keepstep run {supervisor}" if supervisor else None


def _ranks_only(candidates: dict[int, tuple[Training, bool]]) -> list[Training]:
    """Without parents that only launch, and without children that only help a rank."""
    known = {pid: training for pid, (training, _) in candidates.items()}
    launchers = set()
    for training in known.values():
        parent = known.get(training.parent)
        if parent is not None and _has_rank(training) and not _has_rank(parent):
            launchers.add(parent.pid)
    kept = []
    for training in known.values():
        if training.pid in launchers:
            continue
        parent = known.get(training.parent)
        helps = parent is not None and parent.pid not in launchers and _rank(parent) == _rank(training)
        if helps and parent is not None and (_rank(training) is not None or _same_program(parent, training)):
            continue
        kept.append(training)
    return sorted(kept, key=_order)


def _same_program(parent: Training, child: Training) -> bool:
    return parent.command == child.command


def _order(training: Training) -> tuple[bool, int, int]:
    return (training.member is None, training.member.rank if training.member else 0, training.pid)


def _has_rank(training: Training) -> bool:
    return training.member is not None and (training.member.by in _RANKED or training.member.by == "arguments")


def _rank(training: Training) -> int | None:
    return training.member.rank if training.member else None


def _is_launcher(arguments: list[str]) -> bool:
    for n, argument in enumerate(arguments[:6]):
        if argument == "-m" and n + 1 < len(arguments):
            return _LAUNCHER.search(arguments[n + 1]) is not None
        if argument == "-c":
            return False
        if not argument.startswith("-") and _LAUNCHER.search(argument):
            return True
        if argument.endswith(".py"):
            return False
    return False


def _command(arguments: list[str]) -> str:
    """Interpreter and script only: arguments may hold secrets."""
    if not arguments:
        return ""
    parts = [arguments[0].rsplit("/", 1)[-1]]
    for n, argument in enumerate(arguments[1:], 1):
        if argument == "-m" and n + 1 < len(arguments):
            parts += ["-m", arguments[n + 1]]
            break
        if argument == "-c":
            parts.append("-c ...")
            break
        if not argument.startswith("-"):
            parts.append(argument)
            break
    return " ".join(parts)[:200]


def _maps_framework(pid: int) -> bool:
    try:
        with open(_PROC / str(pid) / "maps", "rb") as maps:
            return _MAPPED.search(maps.read(MOST_MAPS)) is not None
    except OSError as error:
        if isinstance(error, PermissionError):
            raise psutil.AccessDenied(pid) from None
        return False


def _state(pid: int) -> str | None:
    """The kernel's letter: R, S, D, T (stopped), t (traced), Z. One whose stack is being taken counts as asleep."""
    found = read_stat(pid)
    state = found.state if found is not None else None
    return "S" if state == "t" and _is_looked_at(pid) else state


def _is_looked_at(pid: int) -> bool:
    """Whether its tracer lets go at once: the guard's companion looks at stacks, and so may another keepstep."""
    try:
        status = (_PROC / str(pid) / "status").read_text("utf-8", "replace")
        tracer = re.search(r"^TracerPid:\s+(\d+)", status, re.M)
        return tracer is not None and b"pystack" in (_PROC / tracer[1] / "cmdline").read_bytes()
    except OSError:
        return False


def _switches(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "task" / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return None
    count = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)
    return int(count[1]) if count else None


def _transferred(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "io").read_text("utf-8", "replace")
    except OSError:
        return None
    return sum(int(n) for n in re.findall(r"^[rw]char: (\d+)", text, re.M))


def _waits_in(pid: int) -> str | None:
    """The kernel function that the main thread sleeps in."""
    try:
        text = (_PROC / str(pid) / "wchan").read_text("utf-8", "replace").strip()
    except OSError:
        return None
    return text if text not in ("", "0") else None


def _session(pid: int) -> str:
    try:
        return f"session {os.getsid(pid)}"
    except OSError:
        return f"process {pid}"


def _ourselves() -> set[int]:
    found = {os.getpid()}
    with contextlib.suppress(psutil.Error):
        found.update(p.pid for p in psutil.Process().parents())
    return found
