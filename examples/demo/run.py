# SPDX-License-Identifier: Apache-2.0
"""``make demo``: a real two-worker TensorFlow training is checked, crashes on this machine, and keepstep says why.

Nothing here is staged for keepstep: the two workers are ordinary processes; ``keepstep check`` sees only the variables that
their launcher would set, ``keepstep why`` only the folder that they leave behind. Takes about a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from keepstep.lab.launch import free_ports

ROOT = Path(__file__).resolve().parents[2]
RUN = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT / ".demo" / "run"
WORKERS = 2
CRASHING = 1
STEPS = 200
CRASH_AT = 70
START_LIMIT_S = 150.0
GRACE_S = 15.0


def main() -> int:
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)
    ports = free_ports(WORKERS)
    say("before the run: both workers were told to be worker 0, as happens when TF_CONFIG is copied")
    if preflight(ports, indices=[0] * WORKERS) != 1:
        return 1
    say("the same with an index for each")
    if preflight(ports, indices=list(range(WORKERS))) != 0:
        return 1
    say(f"starting {WORKERS} TensorFlow workers on this machine (MultiWorkerMirroredStrategy, {STEPS} steps)")
    workers = [start(index, ports) for index in range(WORKERS)]
    try:
        follow(workers)
    finally:
        end(workers)
    for index, worker in enumerate(workers):
        say(f"worker {index} {how_it_ended(worker.returncode)}")
    left = sorted(path for path in RUN.iterdir() if path.is_file())
    say(f"all that is left: {', '.join(f'{path.name} ({size(path)})' for path in left)}")
    command = ["keepstep", "why", os.path.relpath(RUN, ROOT)]
    say(f"asking: {' '.join(command)}")
    print(flush=True)
    began = time.monotonic()
    status = subprocess.run([sys.executable, "-m", "keepstep", *command[1:]], cwd=ROOT).returncode
    print(flush=True)
    say(f"answered in {time.monotonic() - began:.1f} s, exit status {status} (1: problems found)")
    return 0 if status == 1 else 1


def preflight(ports: list[int], indices: list[int]) -> int:
    """``keepstep check`` in one process a worker, as a launcher would start it; the first prints for all."""
    say(f"asking, in each of {WORKERS} processes: keepstep check")
    print(flush=True)
    command = [sys.executable, "-m", "keepstep", "check", "--path", str(RUN)]
    checks = [subprocess.Popen(command, env={**os.environ, "TF_CONFIG": tf_config(index, ports)}) for index in indices]
    try:
        statuses = [check.wait(120) for check in checks]
    finally:
        end(checks)
    print(flush=True)
    say(f"exit status {statuses[0]} ({'problems found' if statuses[0] else 'nothing wrong'})")
    return statuses[0]


def tf_config(index: int, ports: list[int]) -> str:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def start(index: int, ports: list[int]) -> subprocess.Popen[bytes]:
    """One worker, as a launcher would start it on a machine of its own: TF_CONFIG, a log file, cores allowed."""
    env = {
        **os.environ,
        "TF_CONFIG": tf_config(index, ports),
        "CUDA_VISIBLE_DEVICES": "-1",
        "OMP_NUM_THREADS": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "examples.demo.train", f"--steps={STEPS}"]
    if index == CRASHING:
        command.append(f"--crash-at={CRASH_AT}")
    with (RUN / f"worker{index}.log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=RUN, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=allow_cores
        )


def allow_cores() -> None:
    """As far as this machine allows."""
    highest = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (highest, highest))


def follow(workers: list[subprocess.Popen[bytes]]) -> None:
    """Show the steps as they come, until all have ended, or a bounded time after the first has."""
    shown: set[str] = set()
    limit = time.monotonic() + START_LIMIT_S
    first_end: float | None = None
    while time.monotonic() < limit and any(worker.poll() is None for worker in workers):
        for line in (RUN / "worker0.log").read_text(errors="replace").splitlines():
            if line.startswith("worker 0: ") and line not in shown:
                shown.add(line)
                say(f"  {line}")
        if first_end is None and any(worker.poll() is not None for worker in workers):
            first_end = time.monotonic()
            say(f"a worker is gone; giving the other {GRACE_S:.0f} s to notice")
            limit = first_end + GRACE_S
        time.sleep(0.1)


def end(workers: list[subprocess.Popen[bytes]]) -> None:
    """Leave nothing running."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(how)
        for worker in workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(3)


def how_it_ended(status: int | None) -> str:
    if status is None:
        return "could not be ended"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


def size(path: Path) -> str:
    number = path.stat().st_size
    return f"{number / 1e6:.0f} MB" if number >= 1e6 else f"{number / 1e3:.1f} kB"


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
