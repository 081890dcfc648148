# SPDX-License-Identifier: Apache-2.0
"""As many real agents as this machine carries: start, lose a rank, come back, lose an agent, come back, finish.

``python -m benchmarks.agents [AGENTS ...] [--runs N] [--guard]``. All agents are processes of this machine and meet on
loopback, over TLS. Their ranks only read a few bytes per second (idle ones would be taken for stuck), without spares,
so what is measured is keepstep. ``--guard``: ranks with a guard make twenty steps per second instead.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import keepstep
from keepstep.sources.host.ports import free_ports

BEGIN = """
import os, time
rank, attempt = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"]
with open(f"started-{attempt}-{rank}", "w") as file:
    file.write(str(os.getpid()))
"""
BARE = """
data = open("/dev/zero", "rb", buffering=0)
while not os.path.exists(f"go-{attempt}"):
    data.read(256 << 10)
    time.sleep(1.0)
"""
GUARDED = """
import keepstep
@keepstep.guard.attach().step
def step():
    time.sleep(0.05)
while not os.path.exists(f"go-{attempt}"):
    step()
"""
PATIENCE_S = 900.0
STEADY_S = 60.0
SETTLE_S = 15.0
SWEEP_S = 60.0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", type=int, default=[64])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--guard", action="store_true")
    asked = parser.parse_args(words)
    failed = 0
    for count in asked.agents:
        for _ in range(asked.runs):
            with tempfile.TemporaryDirectory() as folder:
                failed += not Trial(Path(folder), count, guard=asked.guard).run()
    return 1 if failed else 0


class Trial:
    """One run. Each measured value is printed, in words."""

    def __init__(self, folder: Path, count: int, *, guard: bool) -> None:
        self.folder, self.count, self.guard = folder, count, guard
        self.agents: list[subprocess.Popen[bytes]] = []
        (folder / "train.py").write_text(BEGIN + (GUARDED if guard else BARE))
        (folder / "temporary").mkdir()

    def run(self) -> bool:
        """Whether it came to a good end."""
        guard = " with a guard in each rank" if self.guard else ""
        print(f"{self.count} agents on {os.cpu_count()} cores{guard}", flush=True)
        try:
            self.measure()
            return True
        except (RuntimeError, TimeoutError) as error:
            print(f"  it did not hold: {error}\n{(self.folder / 'said.txt').read_text()[-8000:]}", flush=True)
            return False
        finally:
            for agent in self.agents:
                if agent.poll() is None:
                    os.killpg(agent.pid, signal.SIGKILL)
                agent.wait()
            print(f"  folders left behind: {self.left()}", flush=True)

    def measure(self) -> None:
        count, folder = self.count, self.folder
        began = time.monotonic()
        self.start()
        agents = self.agents
        ranks = self.started(0, count)
        tell(f"all ranks of attempt 0 run after {time.monotonic() - began:.1f} s")
        for line in steady(agents):
            tell(line)
        struck = time.monotonic()
        os.kill(ranks[count // 2], signal.SIGKILL)
        self.started(1, count)
        tell(f"a rank killed: all ranks of attempt 1 run after {time.monotonic() - struck:.1f} s")
        time.sleep(SETTLE_S)
        struck = time.monotonic()
        agents[-1].kill()
        self.started(2, count - 1)
        tell(f"an agent killed: all ranks of attempt 2 run after {time.monotonic() - struck:.1f} s")
        tell(
            f"the leader has used {used(agents[0].pid):.0f} s of a core so far, "
            f"and {proportional(agents[0].pid) / (1 << 20):.0f} MB"
        )
        (folder / "go-2").touch()
        struck = time.monotonic()
        statuses = {agent.wait(PATIENCE_S) for agent in agents[:-1]}
        tell(f"all ended {time.monotonic() - struck:.1f} s after their ranks were told to, with status {statuses}")
        if statuses != {0}:
            raise RuntimeError("an agent failed")

    def start(self) -> None:
        count = self.count
        command = [sys.executable, "-m", "keepstep", "run", "--nodes", f"{count - 1}:{count}", "--per-node", "1"]
        command += ["--meet", f"127.0.0.1:{free_ports(1)[0]}", "--no-check", "--no-spares", "--quiet"]
        env = {**os.environ, "KEEPSTEP_SECRET": secrets.token_hex(32), "OMP_NUM_THREADS": "1"}
        env |= {"TMPDIR": str(self.folder / "temporary"), "PYTHONPATH": installed(self.folder)}
        env |= {} if self.guard else {"KEEPSTEP": "off"}
        rank = [sys.executable, *(() if self.guard else ("-S",)), "train.py"]
        out = (self.folder / "said.txt").open("wb")
        for node in range(count):
            there = out if node == 0 else subprocess.DEVNULL
            started = subprocess.Popen(
                [*command, "--node-rank", str(node), "--", *rank],
                cwd=self.folder,
                env=env,
                stdout=there,
                stderr=there,
                start_new_session=True,
            )
            self.agents.append(started)

    def started(self, attempt: int, count: int) -> list[int]:
        """The ranks of an attempt, once all run."""
        paths = [self.folder / f"started-{attempt}-{rank}" for rank in range(count)]

        def all_run() -> bool:
            if any(self.folder.glob(f"started-{attempt + 1}-*")):
                raise RuntimeError(f"attempt {attempt} ended before all of its ranks ran")
            return all(path.exists() and path.stat().st_size for path in paths)

        wait_for(all_run)
        return [int(path.read_text()) for path in paths]

    def left(self) -> int:
        """Folders of agents that nobody has removed, some time after the end."""
        until = time.monotonic() + SWEEP_S
        while (found := len(list((self.folder / "temporary").iterdir()))) and time.monotonic() < until:
            time.sleep(0.2)
        return found


def tell(line: str) -> None:
    print(f"  {line}", flush=True)


def installed(folder: Path) -> str:
    """A copy with bytecode, as an installed package has it, whatever this environment says about writing it."""
    shutil.copytree(Path(keepstep.__file__).parent, folder / "site" / "keepstep")
    compileall.compile_dir(folder / "site", quiet=1)
    return str(folder / "site")


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("it took too long")
        time.sleep(0.05)


def steady(agents: Sequence[subprocess.Popen[bytes]]) -> list[str]:
    """What the agents and the leader cost while nothing happens, with their helpers and without their ranks."""
    time.sleep(SETTLE_S)
    teams = [[agent.pid, *helpers(agent.pid)] for agent in agents]
    start_s = sorted(used(agent.pid) for agent in agents[1:])
    before = [{pid: used(pid) for pid in team} for team in teams]
    began = time.monotonic()
    time.sleep(STEADY_S)
    passed = time.monotonic() - began
    costs = [[max(0.0, used(pid) - then) / passed * 100 for pid, then in each.items()] for each in before]
    memory = [[proportional(pid) / (1 << 20) for pid in team] for team in teams]

    def middle(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    together = [sum(each) for each in costs[1:]]
    return [
        f"load {os.getloadavg()[0]:.0f}",
        f"an agent has used {middle(start_s):.2f} s of a core {SETTLE_S:.0f} s after all ranks run",
        f"the leader (with a node of its own) uses {costs[0][0]:.2f} % of a core and {memory[0][0]:.0f} MB",
        f"an agent with its {len(teams[1]) - 1} helpers uses {middle(together):.3f} % of a core "
        f"(at most {max(together):.3f} %), itself {middle([each[0] for each in costs[1:]]):.3f} %; "
        f"{middle([sum(each) for each in memory[1:]]):.0f} MB, "
        f"itself {middle([each[0] for each in memory[1:]]):.0f} MB",
    ]


def helpers(pid: int) -> list[int]:
    """Its children that are not ranks: the reaper, and those that look at stacks."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            children = (task / "children").read_text().split()
            found += [int(each) for each in children if b"train.py" not in Path(f"/proc/{each}/cmdline").read_bytes()]
    return found


def used(pid: int) -> float:
    """Processor time in seconds, to the nanosecond: ticks are too coarse for what sleeps."""
    found = 0
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += int((task / "schedstat").read_text().split()[0])
    return found / 1e9


def proportional(pid: int) -> int:
    """Bytes, with shared pages counted by their share."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return 0


if __name__ == "__main__":
    sys.exit(main())
