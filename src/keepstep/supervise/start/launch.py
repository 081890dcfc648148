# SPDX-License-Identifier: Apache-2.0
"""Who is started, with which variables, and how: ranks of our own, or the user's own command as it is."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from keepstep.base.launchers import JAX, JAX_SCRIPTS, KEEPSTEP, MODULES, PROGRAMS, TF_CONFIG, TORCHRUN
from keepstep.base.lazy_dataclass import dataclass
from keepstep.base.wording import count
from keepstep.cluster.address import joined
from keepstep.cluster.cluster_type import Cluster
from keepstep.cluster.jax import write_jax
from keepstep.cluster.tf_config import write_tf_config
from keepstep.cluster.torchrun import write_torchrun
from keepstep.errors import UserError
from keepstep.sources.host.ports import free_ports
from keepstep.supervise.start.layout import MORE_PORTS, Layout, on_this_machine
from keepstep.supervise.start.reaper import VARIABLE
from keepstep.supervise.start.spares import Launch
from keepstep.supervise.start.started_process import StartedProcess

_limits = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is run, and as how many."""

    command: tuple[str, ...]
    cwd: Path
    members: tuple[StartedProcess, ...]
    as_given: bool = False
    """The user's own launcher or program: it gets no rank variables, and is restarted only on request."""
    total: int | None = None
    """Of several nodes: how many ranks train on all of them. ``members`` has only those of this node."""
    servers: int = 0
    """TensorFlow's parameter servers, on all nodes: they change what a lost worker means."""
    nodes: int = 1

    @property
    def words(self) -> str:
        """What is started, in a few words."""
        what = self.members[0].words if self.as_given else count(len(self.members), "process", "processes")
        return f"{what} on {count(self.nodes, 'node')}" if self.nodes > 1 else what

    @property
    def why_this_size(self) -> str | None:
        """Why it cannot go on with fewer ranks; None: it can."""
        if self.as_given:
            return f"{self.members[0].words} starts the ranks itself"
        if self.nodes > 1:
            return "with several nodes, --nodes MIN:MAX lets it go on without a lost one"
        if any(member.role != "worker" for member in self.members):
            return "its ranks have roles"
        return "it has one rank" if len(self.members) < 2 else None

    @property
    def world(self) -> int:
        return self.total if self.total is not None else sum(member.trains for member in self.members)


def plan(command: list[str], *, ranks: int | None, chief: bool = False, ps: int = 0, evaluator: bool = False) -> Job:
    """The job that the command line means. Raises :class:`UserError`."""
    if not command:
        raise UserError("no command to run", hint="e.g. `keepstep run -n 4 -- python train.py`")
    if ranks is not None and ranks < 1:
        raise UserError("-n must be at least 1", hint=f"it is {ranks}")
    words = _runnable(command)
    cwd = Path.cwd()
    launcher = launcher_of(command)
    if launcher is not None and (ranks is not None or chief or ps or evaluator):
        raise UserError(
            f"{launcher} starts the ranks itself",
            hint=f"leave -n and the roles out, or give keepstep the script instead of {launcher}",
        )
    if ranks is None and not (chief or ps or evaluator):
        member = StartedProcess(
            rank=None, role="launcher" if launcher else "command", program=launcher or program_of(command)
        )
        return Job(command=words, cwd=cwd, members=(member,), as_given=True)
    roles = ["chief" if (chief or ps) and n == 0 else "worker" for n in range(ranks or 1)]
    roles += ["ps"] * ps + ["evaluator"] * evaluator
    members = tuple(StartedProcess(rank=n, role=role, index=roles[:n].count(role)) for n, role in enumerate(roles))
    return Job(command=words, cwd=cwd, members=members, servers=ps)


def launcher_of(command: list[str]) -> str | None:
    """The launcher that a command line begins with, if it is one that starts ranks itself."""
    program = Path(command[0]).name
    if program in PROGRAMS:
        return program
    if program.startswith("python"):
        for n, word in enumerate(command[1:-1], 1):
            if word == "-m":
                return command[n + 1] if command[n + 1] in MODULES else None
            if not word.startswith("-"):
                return None
    return None


def program_of(command: list[str]) -> str:
    """What people call a command: its script or module, else the program."""
    program = Path(command[0]).name
    if program.startswith("python"):
        for n, word in enumerate(command[1:], 1):
            if word == "-m":
                return command[n + 1] if n + 1 < len(command) else program
            if word == "-c":
                return program
            if not word.startswith("-"):
                return Path(word).name if word.endswith(".py") else program
    return program


def _runnable(command: list[str]) -> tuple[str, ...]:
    first = command[0]
    if first.endswith(".py") and (Path(first).is_file() and not os.access(first, os.X_OK)):
        return (sys.executable, *command)
    script = (
        command[1]
        if len(command) > 1 and Path(first).name.startswith("python") and command[1].endswith(".py")
        else None
    )
    if script is not None and not Path(script).exists():
        raise UserError(f"script {script} not found", hint=f"looked in {Path.cwd()}")
    if shutil.which(first) is None:
        hint = (
            f"keepstep run -- python {first}"
            if first.endswith(".py")
            else "give the command as you would type it in the shell"
        )
        raise UserError(f"program {first} not found", hint=hint)
    return tuple(command)


def launches(
    job: Job,
    *,
    attempt: int,
    folder: Path,
    exchange: Path,
    token: str,
    env: Mapping[str, str],
    more: Mapping[str, str],
    limits: Iterable[tuple[str, int]] = (),
    layout: Layout | None = None,
) -> list[Launch]:
    """How each member is started in this attempt. ``layout``: of several nodes; else all ranks are on this machine."""
    base = {**env, **more, VARIABLE: token}
    base |= {"KEEPSTEP_DIR": str(folder / "guard"), "KEEPSTEP_SUPERVISOR": str(os.getpid())}
    for name, value in (("KEEPSTEP", "on"), ("PYTHONFAULTHANDLER", "1")):
        base.setdefault(name, value)
    limits = (("RLIMIT_CORE", -1), *limits)
    reads = len(job.members) == 1
    if job.as_given:
        return [Launch(rank=0, command=job.command, env=base, cwd=job.cwd, limits=limits, reads=reads)]
    base.setdefault("PYTHONUNBUFFERED", "1")  # every rank has a pipe of its own: no line can be torn by another's
    layout = layout or on_this_machine(job.members, free_ports(len(job.members) + MORE_PORTS))
    if len(job.members) > 1:
        base.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // len(job.members))))
    found = []
    for member in job.members:
        own = {**base, **_rank_variables(job, member, layout)}
        own |= {"KEEPSTEP_EXCHANGE": str(exchange), KEEPSTEP.attempt[0]: str(attempt)}
        assert member.rank is not None
        found.append(Launch(rank=member.rank, command=job.command, env=own, cwd=job.cwd, limits=limits, reads=reads))
    return found


def _rank_variables(job: Job, member: StartedProcess, layout: Layout) -> dict[str, str]:
    """For TensorFlow, torch and JAX: a script reads those of its framework."""
    rank, cluster = member.rank or 0, layout.cluster
    training = Cluster(said_by=cluster.said_by, tasks=tuple(t for t in cluster.tasks if t.role in ("chief", "worker")))
    found = {TF_CONFIG.name: write_tf_config(cluster, rank)}
    found |= {KEEPSTEP.rank[0]: str(rank), KEEPSTEP.size[0]: str(job.world)}
    if member.trains:
        found |= write_torchrun(training, rank) | {TORCHRUN.meeting[1]: str(layout.store_port)}
        found |= {TORCHRUN.local_size[0]: str(len(layout.on_the_machine_of(rank)))}
        found |= write_jax(training, rank)
        found |= {JAX_SCRIPTS.size[0]: str(job.world), JAX_SCRIPTS.rank[0]: str(rank)}
        coordinator = joined(layout.first.host, layout.coordinator_port) or ""
        found |= dict.fromkeys(JAX.meeting + JAX_SCRIPTS.meeting + KEEPSTEP.meeting, coordinator)
    if member.trains and len(layout.nodes) > 1:
        node = next(seat.node for seat in layout.seats if seat.rank == rank)
        found |= {"GROUP_RANK": str(layout.nodes.index(node)), "GROUP_WORLD_SIZE": str(len(layout.nodes))}
    return found


def start(launch: Launch, out: int, err: int, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start one process in a session of its own, its output to the descriptors ``out`` and ``err``.

    Without a controlling terminal it may still read from ours; Ctrl-C comes to us alone.
    """
    with _limits, _soft_limits(launch.limits):
        return subprocess.Popen(
            launch.command,
            stdin=None if launch.reads and _is_ours_to_read() else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(launch.env),
            cwd=launch.cwd,
            start_new_session=True,
            pass_fds=pass_fds,
        )


def _is_ours_to_read() -> bool:
    """Whether there is a standard input, and we are not in the background of its terminal, where the shell reads."""
    try:
        return not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def _soft_limits(limits: Iterable[tuple[str, int]]) -> Iterator[None]:
    """The limits that the child inherits: ours, for this moment. (Code between fork and exec could block for ever.)"""
    before: list[tuple[int, tuple[int, int]]] = []
    try:
        for name, value in limits:
            number = getattr(resource, name, None)
            if number is None:
                continue
            with contextlib.suppress(OSError, ValueError):
                soft, hard = resource.getrlimit(number)
                wanted = hard if value < 0 else value
                if hard != resource.RLIM_INFINITY:
                    wanted = min(wanted, hard) if wanted != resource.RLIM_INFINITY else hard
                before.append((number, (soft, hard)))
                resource.setrlimit(number, (wanted, hard))
        yield
    finally:
        for number, old in reversed(before):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(number, old)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
