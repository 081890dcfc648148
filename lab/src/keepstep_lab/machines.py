# SPDX-License-Identifier: Apache-2.0
"""Machines for runs on several nodes: network namespaces with names, temporary folders and shared memory of their own.

Ranks write down when they ran, by a clock that all namespaces share, so two attempts at once would show.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from keepstep.base.proc_stat import read_stat
from keepstep_lab import hosts as lab

PATIENCE_S = 90.0
PORT = 23400
RANK = """
import os, sys, time
rank, attempt, world = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"], os.environ["WORLD_SIZE"]
witness, here, step = sys.argv[1], os.uname().nodename, 0
pause = float(os.environ.get("PAUSE", "0.02"))
with open(f"{witness}/{attempt}-{rank}-{world}-{here}-{os.getpid()}", "a", buffering=1) as file:
    while not os.path.exists(f"{witness}/done"):
        file.write(open("/proc/uptime").read().split()[0] + "\\n")
        if os.path.exists(f"{witness}/fail-{attempt}-{rank}"):
            sys.exit("the trial asked this rank to fail")
        time.sleep(pause)
print("rank", rank, "is done")
"""
STEPS = """
import os, sys, time
from keepstep import guard
rank, attempt, world = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"], os.environ["WORLD_SIZE"]
witness, here, number, guarded = sys.argv[1], os.uname().nodename, 0, guard.attach()
step = guarded.step(lambda: time.sleep(0.02))
with open(f"{witness}/{attempt}-{rank}-{world}-{here}-{os.getpid()}", "a", buffering=1) as file:
    while not os.path.exists(f"{witness}/done"):
        file.write(open("/proc/uptime").read().split()[0] + "\\n")
        step()
        number += 1
        if number % 50 == 0:
            with guarded.phase("checkpoint"), open(f"{witness}/saved-{rank}", "w") as saved:
                saved.write(str(number))
print("rank", rank, "is done")
"""
"""The same with steps and checkpoints that the guard sees."""


class InVain(AssertionError):
    """What was waited for did not happen."""


class Agent:
    """A `keepstep run` on one machine."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process, self.output = process, output

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def ended(self, patience_s: float = PATIENCE_S) -> int:
        """Its status."""
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise InVain(f"waited in vain for this agent to end: {self.said}") from None

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def says(self, words: str, patience_s: float = PATIENCE_S) -> float:
        """Wait for these words. Returns when they were there, on the monotonic clock."""
        try:
            wait_for(lambda: words in self.said, repr(words), patience_s)
        except InVain as error:
            raise InVain(f"{error} in: {self.said}") from None
        return time.monotonic()


class Machines:
    """``count`` machines that share no folder but the witnesses', with one agent at most on each."""

    def __init__(self, count: int, folder: Path, env: Mapping[str, str] = os.environ) -> None:
        """``env``: what every process there finds besides the machine's own variables."""
        self.folder = folder
        self._env = dict(env)
        self.witness = folder / "witness"
        self.witness.mkdir(parents=True)
        self.secret = secrets.token_hex(32)
        self.net = lab.Hosts(count, folder, self._env)
        self.agents: list[Agent] = []
        self.own: set[int] = set()
        """Servers of the lab itself, which are not left behind by a run."""
        for host in range(count):
            for place in ("work", "tmp"):
                self.of(host, place).mkdir(parents=True)
            self.of(host, "work", "train.py").write_text(RANK)
            self.net.do(host, "mount", "-t", "tmpfs", "-o", "size=64m", "shm", "/dev/shm")

    def of(self, host: int, *path: str) -> Path:
        """A path of this machine's own."""
        return self.folder.joinpath(f"machine-{host}", *path)

    # --- agents

    def start(
        self,
        host: int,
        *options: str,
        env: Mapping[str, str] | None = None,
        script: tuple[str, ...] = (),
        check: bool = False,
    ) -> Agent:
        """`keepstep run OPTIONS -- python train.py` on this machine."""
        words = [sys.executable, "-m", "keepstep", "run", "--no-spares", *options, "--"]
        words[4:4] = [] if check else ["--no-check"]
        words += script or (sys.executable, "train.py", str(self.witness))
        output = self.of(host, f"output-{len(self.agents)}.txt")
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [*self.net.inside(host), "env", f"--chdir={self.of(host, 'work')}", *words],
                env={**self._env, **self.variables(host), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        self.agents.append(Agent(process, output))
        return self.agents[-1]

    def variables(self, host: int) -> dict[str, str]:
        state = str(self.of(host, "state"))
        tmp = str(self.of(host, "tmp"))
        return {"KEEPSTEP_SECRET": self.secret, "KEEPSTEP": "off", "TMPDIR": tmp, "XDG_STATE_HOME": state}

    def meet(
        self, host: int, *options: str, port: int = PORT, env: Mapping[str, str] | None = None, check: bool = False
    ) -> Agent:
        """The agent of node ``host``, which meets the others at machine 0."""
        where = ("--node-rank", str(host), "--meet", f"{lab.name(0)}:{port}", "--per-node", "1", "--grace", "2")
        return self.start(host, *where, *(options or ("--nodes", str(self.net.count))), env=env, check=check)

    # --- ranks

    def ran(self, attempt: int, world: int) -> list[Path]:
        """The witnesses of the ranks that took part."""
        found = [each for each in self.witness.glob(f"{attempt}-*") if each.name.split("-")[2] == str(world)]
        return sorted(each for each in found if each.stat().st_size)

    def wait_for_attempt(self, attempt: int, world: int, patience_s: float = PATIENCE_S) -> float:
        """Until all its ranks run. Returns when, on the monotonic clock."""
        until = time.monotonic() + patience_s
        while len(self.ran(attempt, world)) < world:
            said = "\n".join(agent.said for agent in self.agents)
            if time.monotonic() > until:
                raise InVain(f"waited in vain for attempt {attempt} of {world} ranks: {said}")
            if all(agent.process.poll() is not None for agent in self.agents):
                raise InVain(f"all agents have ended before attempt {attempt} of {world} ranks: {said}")
            time.sleep(0.02)
        return time.monotonic()

    def pids(self, attempt: int, world: int, host: int | None = None) -> list[int]:
        """Of its ranks, or of those on one machine."""
        found = [each.name.rpartition("-") for each in self.ran(attempt, world)]
        return [int(pid) for name, _, pid in found if host is None or name.endswith(f"-{lab.name(host)}")]

    def finish(self) -> None:
        """Let the ranks end well."""
        (self.witness / "done").touch()

    def spans(self) -> dict[int, tuple[float, float]]:
        """When the first rank of each attempt began and the last one was last seen alive, in seconds."""
        found: dict[int, tuple[float, float]] = {}
        for path in self.witness.glob("[0-9]*-*-*-*"):
            times = [float(line) for line in path.read_text().splitlines() if line]
            if times:
                attempt = int(path.name.partition("-")[0])
                first, last = found.get(attempt, (times[0], times[-1]))
                found[attempt] = min(first, times[0]), max(last, times[-1])
        return found

    def never_two_at_once(self) -> bool:
        spans = self.spans()
        return all(spans[k][1] < spans[k + 1][0] for k in spans if k + 1 in spans)

    # --- what is left

    def processes(self, host: int) -> list[str]:
        """Of this machine, but for the one that holds its namespaces."""
        inside = os.stat(f"/proc/{self.net.holder(host)}/ns/net").st_ino
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                is_other = entry.name.isdecimal() and int(entry.name) not in (self.net.holder(host), *self.own)
                if is_other and os.stat(entry / "ns" / "net").st_ino == inside and _lives(int(entry.name)):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append(f"{entry.name} {words}")
        return found

    def left(self, *, patience_s: float = 5.0) -> list[str]:
        """Processes, temporary files and shared memory that are still there once everything should be gone."""
        until = time.monotonic() + patience_s
        while (found := self._left()) and time.monotonic() < until:
            time.sleep(0.1)
        return found

    def _left(self) -> list[str]:
        found = []
        for host in range(self.net.count):
            found += [f"{lab.name(host)}: {each}" for each in self.processes(host)]
            found += [f"{lab.name(host)}: {path}" for path in self.of(host, "tmp").glob("keepstep*")]
            shared = self.net.do(
                host, "find", "/dev/shm", "-type", "f"
            ).split()  # what only guards need is removed by the next guard
            found += [f"{lab.name(host)}: {path}" for path in shared if "keepstep-arriving" not in path]
        return found

    # --- faults

    def drop(self, host: int, *, chains: tuple[str, ...] = ("INPUT", "OUTPUT"), target: str = "DROP") -> None:
        """Cut the machine's cable, in one direction or in both."""
        for chain in chains:
            self.net.do(host, "iptables", "-A", chain, "!", "-s" if chain == "INPUT" else "-d", "127.0.0.0/8",
                        "-j", target)  # fmt: skip

    def mend(self, host: int) -> None:
        self.net.do(host, "iptables", "-F")

    def close(self) -> None:
        for agent in self.agents:
            with contextlib.suppress(OSError):
                os.killpg(agent.process.pid, signal.SIGKILL)
            agent.process.wait()
        for host in range(self.net.count):
            for each in self.processes(host):
                with contextlib.suppress(OSError):
                    os.kill(int(each.split()[0]), signal.SIGKILL)
        self.net.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            raise InVain(f"waited in vain for {what}")
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    found = read_stat(pid)
    return found is not None and found.lives
