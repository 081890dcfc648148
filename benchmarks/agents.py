# SPDX-License-Identifier: Apache-2.0
"""As many real agents as this machine carries: start, lose a rank, come back, lose an agent, come back, finish.

``python -m benchmarks.agents [AGENTS]``. All agents are processes of this machine and meet on loopback, over TLS. Their
ranks only read a few bytes per second (idle ones would be taken for stuck), without a guard and without spares, so what
is measured is keepstep.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from keepstep.sources.ports import free_ports

RANK = """
import os, time
rank, attempt = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"]
with open(f"started-{attempt}-{rank}", "w") as file:
    file.write(str(os.getpid()))
data = open("/dev/zero", "rb", buffering=0)
while not os.path.exists(f"go-{attempt}"):
    data.read(256 << 10)
    time.sleep(1.0)
"""
PATIENCE_S = 900.0
STEADY_S = 60.0
SETTLE_S = 15.0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="?", type=int, default=64)
    count: int = parser.parse_args(words).agents
    with tempfile.TemporaryDirectory() as folder:
        for line in measure(Path(folder), count):
            print(line, flush=True)
    return 0


def measure(folder: Path, count: int) -> list[str]:
    """Each measured value, in words."""
    (folder / "train.py").write_text(RANK)
    began = time.monotonic()
    agents = start(folder, count)
    said = [f"{count} agents on {os.cpu_count()} cores"]
    try:
        ranks = started(folder, 0, count)
        said.append(f"all ranks of attempt 0 run after {time.monotonic() - began:.1f} s")
        said += steady(agents)
        struck = time.monotonic()
        os.kill(ranks[count // 2], signal.SIGKILL)
        started(folder, 1, count)
        said.append(f"a rank killed: all ranks of attempt 1 run after {time.monotonic() - struck:.1f} s")
        struck = time.monotonic()
        agents[-1].kill()
        started(folder, 2, count - 1)
        said.append(f"an agent killed: all ranks of attempt 2 run after {time.monotonic() - struck:.1f} s")
        (folder / "go-2").touch()
        struck = time.monotonic()
        status = agents[0].wait(PATIENCE_S)
        for agent in agents[1:-1]:
            agent.wait(PATIENCE_S)
        said.append(f"all ended {time.monotonic() - struck:.1f} s after their ranks were told to, with status {status}")
    finally:
        for agent in agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
    return said


def start(folder: Path, count: int) -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "keepstep", "run", "--nodes", f"{count - 1}:{count}", "--per-node", "1"]
    command += ["--meet", f"127.0.0.1:{free_ports(1)[0]}", "--no-check", "--no-spares", "--quiet"]
    env = {**os.environ, "KEEPSTEP": "off", "KEEPSTEP_SECRET": secrets.token_hex(32), "OMP_NUM_THREADS": "1"}
    out = (folder / "said.txt").open("wb")
    return [
        subprocess.Popen(
            [*command, "--node-rank", str(node), "--", sys.executable, "-S", "train.py"],
            cwd=folder,
            env=env,
            stdout=out if node == 0 else subprocess.DEVNULL,
            stderr=out if node == 0 else subprocess.DEVNULL,
            start_new_session=True,
        )
        for node in range(count)
    ]


def started(folder: Path, attempt: int, count: int) -> list[int]:
    """The ranks of an attempt, once all run."""
    paths = [folder / f"started-{attempt}-{rank}" for rank in range(count)]
    wait_for(lambda: all(path.exists() and path.stat().st_size for path in paths), folder)
    return [int(path.read_text()) for path in paths]


def wait_for(condition: Callable[[], bool], folder: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError((folder / "said.txt").read_text()[-4000:])
        time.sleep(0.05)


def steady(agents: Sequence[subprocess.Popen[bytes]]) -> list[str]:
    """What the agents and the leader cost while nothing happens, with their helpers and without their ranks."""
    time.sleep(SETTLE_S)
    teams = [[agent.pid, *helpers(agent.pid)] for agent in agents]
    start_s = sorted(used(agent.pid) for agent in agents[1:])
    before = [[used(pid) for pid in team] for team in teams]
    began = time.monotonic()
    time.sleep(STEADY_S)
    passed = time.monotonic() - began
    costs = [
        [(used(pid) - then) / passed * 100 for pid, then in zip(team, each, strict=True)]
        for team, each in zip(teams, before, strict=True)
    ]
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
        for child in (task / "children").read_text().split():
            if b"train.py" not in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def used(pid: int) -> float:
    """Processor time in seconds, to the nanosecond: ticks are too coarse for what sleeps."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def proportional(pid: int) -> int:
    """Bytes, with shared pages counted by their share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10


if __name__ == "__main__":
    sys.exit(main())
