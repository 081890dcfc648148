# SPDX-License-Identifier: Apache-2.0
"""Memory, processes, files, shared memory and cores that run out."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from . import Fault, rest

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class MemoryLimit(Fault):
    """The rank lives in a memory cgroup (v1) and grows past its limit: the kernel kills it and logs that."""

    LIMIT = 256 << 20
    """Only what it takes from now on is counted."""

    def outside(self, run: Run) -> None:
        group = run.control_group("memory", {"memory.limit_in_bytes": str(self.LIMIT)})
        if run.until(lambda: bool(run.strikes())):
            (group / "cgroup.procs").write_text(str(run.pid_of(run.scenario.struck)))
            while not run.over.is_set() and not any("Killed process" in line for line in self._kernel_log(group.name)):
                time.sleep(0.1)
            (run.folder / "dmesg.log").write_text("\n".join(self._kernel_log(group.name)) + "\n")

    def at(self, step: int, rank: int) -> None:
        while "keepstep-lab" not in Path("/proc/self/cgroup").read_text():
            rest(0.01)
        held = []
        while True:
            held.append(os.urandom(1 << 20) * 8)
            rest(0.02)

    def proof(self, run: Run) -> str:
        path = run.folder / "dmesg.log"
        killed = [line for line in path.read_text().splitlines() if "Killed process" in line] if path.exists() else []
        if not killed:
            raise run.unproven("the kernel killed nobody")
        return f"the kernel's log: {killed[0].strip()}"

    def _kernel_log(self, group: str) -> list[str]:
        """The lines of this cgroup's kill: from the one who asked for memory to the one who was killed."""
        lines = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()
        named = [index for index, line in enumerate(lines) if group in line]
        if not named:
            return []
        asked = [index for index in range(named[0]) if "invoked oom-killer" in lines[index]]
        return lines[asked[-1] if asked else named[0] : named[-1] + 4]


class ProcessLimit(Fault):
    """The rank may have no more tasks (pids cgroup, as containers have); it starts threads until it cannot."""

    ROOM = 12

    def outside(self, run: Run) -> None:
        if run.until(lambda: bool(run.strikes())):
            pid = run.pid_of(run.scenario.struck)
            tasks = len(list(Path(f"/proc/{pid}/task").iterdir()))
            group = run.control_group("pids", {"pids.max": str(tasks + self.ROOM)})
            (group / "cgroup.procs").write_text(str(pid))

    def at(self, step: int, rank: int) -> None:
        while "keepstep-lab" not in Path("/proc/self/cgroup").read_text():
            rest(0.01)
        while True:
            threading.Thread(target=rest, args=(300,), daemon=True).start()

    def proof(self, run: Run) -> str:
        refused = int((run.control_group("pids", {}) / "pids.events").read_text().split()[1])
        if not refused:
            raise run.unproven("no task was refused")
        return f"the kernel refused {refused} new tasks (pids.events)"


class OpenFiles(Fault):
    """The rank opens files and never closes them, until the limit of open files is reached."""

    held: list[TextIO] = []

    def at(self, step: int, rank: int) -> None:
        while True:
            self.held.append(
                open(os.path.join(os.environ["KEEPSTEP_LAB_WORK"], f"shard-{len(self.held):05d}.txt"), "a")
            )

    def proof(self, run: Run) -> str:
        opened = len(list(run.work.glob("shard-*.txt")))
        return f"{opened} files were opened; {run.proof_in_log(run.scenario.struck, 'Too many open files')}"


class SmallShm(Fault):
    """/dev/shm holds 64 kB only: not even the semaphores of the loader's queues fit."""

    SIZE = 64 << 10

    def prepare(self, run: Run) -> None:
        # seen by this run only: the lab has a mount namespace of its own
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "shm", "/dev/shm"], check=True)

    def proof(self, run: Run) -> str:
        seen = os.statvfs("/dev/shm")
        if seen.f_blocks * seen.f_frsize != self.SIZE:
            raise run.unproven(f"/dev/shm has {seen.f_blocks * seen.f_frsize} bytes")
        return f"/dev/shm of the ranks has {self.SIZE} bytes"


class FullShm(SmallShm):
    """/dev/shm of 1 MB, as in a container without --shm-size, is filled by another program while the job runs."""

    SIZE = 1 << 20

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            with open("/dev/shm/other.bin", "wb", buffering=0) as file:
                try:
                    while not run.over.is_set():
                        file.write(bytes(4096))
                except OSError:
                    run.strike("/dev/shm is full")

    def proof(self, run: Run) -> str:
        if not any("is full" in what for _, what in run.strikes()):
            raise run.unproven("/dev/shm was not filled")
        return f"{super().proof(run)}, and was filled while the job ran"


class StarvedCpu(Fault):
    """The rank gets a twentieth of a core (cpu cgroup), as beside a greedy neighbour."""

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            group = run.control_group("cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "5000"})
            (group / "cgroup.procs").write_text(str(run.pid_of(run.scenario.struck)))
            run.strike(f"rank {run.scenario.struck} gets 5 % of a core")

    def proof(self, run: Run) -> str:
        text = (run.control_group("cpu", {}) / "cpu.stat").read_text()
        stat = dict(line.split() for line in text.splitlines())
        if int(stat["nr_throttled"]) < 3:
            raise run.unproven("the rank was not held back")
        seconds = int(stat["throttled_time"]) / 1e9
        return f"the kernel held the rank back {stat['nr_throttled']} times, {seconds:.1f} s in all"
