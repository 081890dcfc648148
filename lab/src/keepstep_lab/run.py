# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario: what its ranks will get, then what they are.

Faults edit it, strike it and prove that they did.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keepstep_lab import data as lab_data
from keepstep_lab import hosts as lab_hosts
from keepstep_lab.hosts import Hosts
from keepstep_lab.scenario import Scenario

PAUSE_S = 0.05


class NotForRun(Exception):
    """This fault cannot be put to `keepstep run`."""


class Unproven(Exception):
    """The fault did not happen, or nothing shows that it did: there is nothing to judge."""


@dataclass
class Run:
    """``folder`` is what the run leaves and `why` reads; ``work`` is private to the job and the lab."""

    scenario: Scenario
    token: str
    work: Path
    ports: list[int]
    python: str
    env: list[dict[str, str]] = field(default_factory=list)
    given: list[dict[str, str]] = field(default_factory=list)
    """The same before a fault edited it."""
    args: list[list[str]] = field(default_factory=list)
    prefix: list[list[str]] = field(default_factory=list)
    """Put before a rank's command, e.g. to run it in a namespace."""
    order: list[int] = field(default_factory=list)
    delay: dict[int, float] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    hosts: Hosts | None = None
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By rank; a launcher such as torchrun is at 0 and stands for all."""
    ended: list[tuple[int, int]] = field(default_factory=list)
    """Rank and status of processes that another has taken the place of."""
    restarting: bool = False
    """Whether a fault is about to start ranks again, so the run is not over when all of them have ended."""
    over: threading.Event = field(default_factory=threading.Event)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    spawn: Callable[[Run, int], None] | None = None
    told_status: Callable[[Run, int], int | None] | None = None
    """What the launcher says of a rank's end, where the ranks are not our own children."""
    watch: str = ""
    """``guard``: the ranks run with the guard on, and only what it wrote is judged.

    ``run``: `keepstep run` starts them.
    """

    @property
    def folder(self) -> Path:
        return self.work / "left"

    @property
    def app(self) -> Path:
        """Where the job's script is."""
        return self.work / "app"

    @property
    def data(self) -> Path:
        return self.work / "data"

    # --- acting

    def wait_for(self, text: str, rank: int | None = None, limit: float = 90.0) -> bool:
        """Wait until some log (or that of ``rank``) holds ``text``; False when the run is over before."""
        pattern = "**/*.log" if rank is None else f"rank{rank}.log"
        return self.until(
            lambda: any(text in path.read_text(errors="replace") for path in self.folder.glob(pattern)), limit
        )

    def until(self, condition: Callable[[], bool], limit: float = 90.0) -> bool:
        """Wait until ``condition`` holds; False when the run is over before."""
        end = time.monotonic() + limit
        while time.monotonic() < end and not self.over.is_set():
            if condition():
                return True
            self.over.wait(PAUSE_S)
        return False

    def strike(self, what: str) -> None:
        """Note that the fault strikes now. Inside a rank the hooks of ``faults`` do it."""
        with (self.work / "struck").open("a") as notes:
            notes.write(f"{time.monotonic()} {what}\n")

    def start_rank(self, rank: int) -> None:
        """Start (again) the process of one rank, its output at the end of the rank's log."""
        if rank in self.processes:
            self.ended.append((rank, self.processes[rank].wait()))
        assert self.spawn is not None
        self.spawn(self, rank)

    def in_training_python(self, code: str, *args: str) -> str:
        """Run ``code`` with the job's Python in the job's folder (``import train`` is the job); what it printed."""
        env = {**self.env[0], "PYTHONPATH": str(self.app)}
        command = [self.python, "-c", code, *args]
        done = subprocess.run(command, cwd=self.app, env=env, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise Unproven(f"preparing failed: {done.stderr.strip()[-500:]}")
        return done.stdout

    def control_group(self, controller: str, settings: dict[str, str]) -> Path:
        """A new control group (v1) of this run; the sweeper removes it."""
        group = Path("/sys/fs/cgroup") / controller / f"keepstep-lab-{self.token}"
        group.mkdir(exist_ok=True)
        for name, value in settings.items():
            (group / name).write_text(value)
        return group

    # --- what faults do to files and arguments

    @property
    def shard(self) -> Path:
        """The data file of the rank that the fault strikes."""
        return lab_data.path_of(self.scenario.framework, self.data, self.scenario.struck)

    def points(self) -> tuple[Any, Any]:
        """The inputs and labels that were written there."""
        return lab_data.points(self.scenario.struck)

    def put_points(self, inputs: Any, labels: Any) -> None:
        """Write others there."""
        lab_data.put(self.shard, inputs, labels)

    def cut(self, path: Path, more: int = 0) -> None:
        """Take away the second half of a file, but for so many bytes."""
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2 + more])
        self.strike(f"{path.name} was cut from {len(whole)} to {path.stat().st_size} bytes")

    def give_all(self, *words: str) -> None:
        """Give every rank further arguments."""
        for args in self.args:
            args += words

    # --- looking

    def host_of(self, rank: int) -> int:
        """The host that a rank lives on: neighbours share one."""
        return rank * self.scenario.hosts // self.scenario.ranks

    def address_of(self, rank: int) -> str:
        return lab_hosts.address(self.host_of(rank)) if self.scenario.hosts else "127.0.0.1"

    def pid_of(self, rank: int) -> int:
        """The process id of the Python of ``rank``, below whatever launched it."""
        names = {f"{name}={rank}".encode() for name in ("KEEPSTEP_LAB_TASK", "RANK", "KEEPSTEP_RANK")}
        script = str(self.app / "train.py").encode()
        for pid in self._descendants():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                environ = set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
                if names & environ and script in words and b"torch.distributed.run" not in words:
                    return pid
        raise Unproven(f"rank {rank} has no process")

    def rank_pids(self) -> dict[int, int]:
        """The living training processes, by rank."""
        found = {}
        for rank in range(self.scenario.ranks):
            with contextlib.suppress(Unproven):
                found[rank] = self.pid_of(rank)
        return found

    def children_of(self, pid: int) -> list[int]:
        """The direct children of ``pid``."""
        with contextlib.suppress(OSError):
            return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def _descendants(self) -> list[int]:
        found = [process.pid for process in self.processes.values()]
        for pid in found:
            found.extend(self.children_of(pid))
        return found

    def strikes(self) -> list[tuple[float, str]]:
        """When the fault struck, and what was noted then."""
        path = self.work / "struck"
        lines = path.read_text().splitlines() if path.exists() else []
        wall = time.time() - time.monotonic()
        return [(wall + float(at), what) for at, _, what in (line.partition(" ") for line in lines)]

    # --- proving

    def unproven(self, why: str) -> Unproven:
        """To be raised by a fault, which cannot import this module where it is a copy."""
        return Unproven(why)

    def status_of(self, rank: int) -> int | None:
        """The exit status of a rank's (first) process; negative: the signal; None: it lives."""
        for each, status in self.ended:
            if each == rank:
                return status
        if self.told_status is not None:
            return self.told_status(self, rank)
        return self.processes[rank].poll() if rank in self.processes else None

    def log_of(self, rank: int) -> str:
        """All that a rank has printed, wherever its launcher put it."""
        found = [path for path in sorted(self.folder.rglob("*.log")) if _is_of(path, self.folder, rank)]
        if not found:
            found = sorted(self.folder.glob("terminal.log"))
        return "\n".join(path.read_text(errors="replace") for path in found)

    def proof_that_it_struck(self) -> str:
        """The hook inside a rank was reached and ran the fault."""
        if not self.strikes():
            raise Unproven("the fault was never reached")
        return self.strikes()[0][1]

    def proof_of_signal(self, rank: int, number: int) -> str:
        """The process of ``rank`` was ended by this signal, as the one who waited for it, or its launcher, tells."""
        status = self.status_of(rank) if not self.scenario.launcher.startswith("torchrun") else None
        if status in (-number, 128 + number) or (status is None and f"exitcode: {-number}" in self.log_of(-1)):
            return f"rank {rank} was ended by signal {number}"
        raise Unproven(f"rank {rank} was not ended by signal {number}: its status is {status}")

    def proof_in_log(self, rank: int, text: str) -> str:
        """The rank printed ``text``."""
        for line in self.log_of(rank).splitlines():
            if text in line:
                return f"rank {rank} printed: {line.strip()[:200]}"
        raise Unproven(f"rank {rank} did not print {text!r}")

    def alive(self, rank: int) -> bool:
        with contextlib.suppress(Unproven, ProcessLookupError):
            os.kill(self.pid_of(rank), 0)
            return True
        return False


def _is_of(path: Path, folder: Path, rank: int) -> bool:
    """Ours are named rankN.log, torchrun's are in a folder N; -1: the launcher's own output."""
    if rank == -1:
        return path.name == "terminal.log"
    return path.name == f"rank{rank}.log" or path.parent.name == str(rank)
