# SPDX-License-Identifier: Apache-2.0
"""One storm of faults over the same training, under `keepstep run`, torchrun and a plain restart loop.

    python -m benchmarks.fault_storm [--steps 1000] [--seed 1] [WAY ...]

The list of faults follows from the seed: which fault strikes after which step of the training. A rank is killed, one is
stopped (SIGSTOP), one is killed while a stranger takes the port at which the ranks met, one loss is NaN once, and the
whole job is preempted: SIGTERM to the launcher, SIGKILL after 30 s, and the same command again, as a scheduler does.

Counted are steps done twice, the time in which no new step was done, the usual step, and the loss in the end, beside a
run without faults. With "calls" the script calls `keepstep.skip_if` and `keepstep.should_stop`; else it has no word of
keepstep in it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.comeback import HERE, RANKS, keepstep, plain

JOB = HERE / "storm_jobs" / "torch_job.py"
KINDS = ("kill", "hang", "port", "nan", "preempt", "kill")
GRACE_S, PORT_S = 30.0, 10.0


def torchrun(job: list[str], folder: Path) -> list[str]:
    own = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    return [*own, "--max-restarts=20", *job]


WAYS = {
    "keepstep with calls": (keepstep, ["--calls"]),
    "keepstep": (keepstep, []),
    "torchrun": (torchrun, []),
    "plain": (plain, []),
}


@dataclass
class Storm:
    """One run under one way."""

    folder: Path
    command: list[str]
    faults: list[tuple[int, str, int]]
    """After which step, what, and to which rank."""
    limit_s: float
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    told: list[str] = field(default_factory=list)

    def start(self) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
        with (self.folder / "out").open("ab") as out:
            self.process = subprocess.Popen(
                self.command, cwd=HERE.parent, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        self.starts += 1

    def steps(self, rank: int = 0) -> list[list[str]]:
        """Of each step that a rank did: when it ended, the process, its number, and how long it took."""
        with contextlib.suppress(OSError):
            lines = (self.folder / f"steps-{rank}").read_text().splitlines()
            return [words for words in map(str.split, lines) if len(words) == 4]
        return []

    def reached(self) -> int:
        return max((int(words[2]) for words in self.steps()), default=-1)

    def end(self) -> None:
        """All that was started here: the launcher's group, and every process whose command names our folder."""
        assert self.process is not None
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for found in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if os.fsencode(self.folder) in found.read_bytes():
                    os.kill(int(found.parent.name), signal.SIGKILL)

    def strike(self, kind: str, rank: int) -> None:
        pid = int(self.steps(rank)[-1][1])
        if kind == "nan":
            (self.folder / "nan").touch()
        elif kind == "hang":
            os.kill(pid, signal.SIGSTOP)
        elif kind == "preempt":
            self._preempt()
        else:
            port = _port_of(pid)
            os.kill(pid, signal.SIGKILL)
            if kind == "port" and port is not None:
                self.told.append(_take(port))

    def _preempt(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)
        self.end()
        self.start()

    def run(self) -> float | None:
        """Seconds until the training was over; None if it was not within the limit."""
        began, left = time.monotonic(), list(self.faults)
        self.start()
        try:
            while time.monotonic() - began < self.limit_s:
                assert self.process is not None
                status = self.process.poll()
                if status == 0 and not left:
                    return time.monotonic() - began
                if status is not None:
                    self.told.append(f"it ended with {status} after step {self.reached()} and was started again")
                    self.end()
                    self.start()
                if left and self.reached() >= left[0][0]:
                    _, kind, rank = left.pop(0)
                    self.strike(kind, rank)
                time.sleep(0.02)
            return None
        finally:
            self.end()


def _port_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if each.startswith(b"MASTER_PORT="):
                return int(each.partition(b"=")[2])
    return None


def _take(port: int) -> str:
    """Hold the port for some seconds, from a process of its own, as soon as it is free."""
    code = (
        "import socket, time, sys\n"
        "taken, end = socket.socket(), time.monotonic() + float(sys.argv[2])\n"
        "taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "while time.monotonic() < end:\n"
        "    try:\n        taken.bind(('127.0.0.1', int(sys.argv[1]))); taken.listen(); break\n"
        "    except OSError:\n        time.sleep(0.01)\n"
        "time.sleep(max(0.0, end - time.monotonic()))\n"
    )
    subprocess.Popen([sys.executable, "-c", code, str(port), str(PORT_S)])
    return f"a stranger takes port {port} for {PORT_S:.0f} s"


def faults_of(seed: int, steps: int, kinds: list[str]) -> list[tuple[int, str, int]]:
    """The same for every way: one fault in each equal part of the training, at a step and on a rank by chance."""
    chance, part = random.Random(seed), steps // (len(kinds) + 1)
    kinds = chance.sample(kinds, len(kinds))
    return [
        (part * (n + 1) + chance.randrange(part // 2), kind, chance.randrange(RANKS)) for n, kind in enumerate(kinds)
    ]


def measure(name: str, faults: list[tuple[int, str, int]], steps: int, limit_s: float) -> tuple[list[str], str]:
    """The columns of a row, and the final loss."""
    make, more = WAYS[name]
    folder = Path(tempfile.mkdtemp(prefix="keepstep-storm-"))
    storm = Storm(folder, make([str(JOB), str(folder), str(steps), *more], folder), faults, limit_s)
    try:
        wall_s = storm.run()
        done = storm.steps()
        usual_s = median(float(words[3]) for words in done) if done else 0.0
        unique = len({words[2] for words in done})
        output = (folder / "out").read_text(errors="replace")
        losses = {line.rpartition(" ")[2] for line in output.splitlines() if "final loss" in line}
        for each in storm.told:
            print(f"  {name}: {each}", file=sys.stderr)
        if wall_s is None:
            print(output[-3000:], file=sys.stderr)
        over = f"{wall_s:.0f} s" if wall_s is not None else f"not over in {limit_s:.0f} s ({unique} of {steps} steps)"
        idle = f"{wall_s - unique * usual_s:.0f} s" if wall_s is not None else ""
        loss = " ".join(sorted(losses))
        return [over, str(len(done) - unique), idle, f"{1000 * usual_s:.1f} ms", str(storm.starts), loss], loss
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--faults", default=",".join(KINDS), help="which ones (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for one way")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    faults = faults_of(asked.seed, asked.steps, asked.faults.split(","))
    cores = f"{os.cpu_count()} cores (load {os.getloadavg()[0]:.1f})"
    print(f"{asked.steps} steps, {RANKS} ranks on {cores}, seed {asked.seed}:")
    print("; ".join(f"{kind} after step {at} (rank {rank})" for at, kind, rank in faults))
    print("\n| run by | over after | steps done twice | no new step for | usual step | started | final loss |")
    print("|---|---|---|---|---|---|---|", flush=True)
    calm, wanted = measure("plain", [], asked.steps, asked.limit)
    print(f"| plain, no faults | {' | '.join(calm)} |", flush=True)
    equal = True
    for name in asked.ways or WAYS:
        columns, loss = measure(name, faults, asked.steps, asked.limit)
        equal &= loss == wanted
        print(f"| {name} | {' | '.join(columns)} |", flush=True)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
