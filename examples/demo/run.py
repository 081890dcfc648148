# SPDX-License-Identifier: Apache-2.0
"""``make demo``: the whole story on this machine.

A real two-worker TensorFlow training is checked, starts, crashes for a real reason, is explained, comes back by itself
from its last checkpoint, and finishes. Nothing here is staged for keepstep: the training script knows nothing about it,
and the crash is a genuine mistake in native code that strikes after some time. It takes about a minute.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from keepstep.sources.host.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
RUN = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT / ".demo"
WORKERS = 2
STEPS = 120
CRASH_AFTER = 70
KEEPSTEP = [sys.executable, "-m", "keepstep"]


def main() -> int:
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)
    say("BEFORE: both workers were told to be worker 0, as happens when TF_CONFIG is copied")
    if check(indices=[0] * WORKERS) != 1:
        return failed("the check missed it")

    say(
        f"DURING: {WORKERS} TensorFlow workers, {STEPS} steps; a mistake in native code strikes after "
        f"{CRASH_AFTER} batches"
    )
    train = [sys.executable, "-m", "examples.demo.train", f"--steps={STEPS}", f"--crash-after={CRASH_AFTER}"]
    train += [f"--checkpoints={RUN / 'checkpoints'}"]
    status = ask("run", "-n", str(WORKERS), "--name", "demo", "--run-dir", str(RUN / "runs"), "--", *train)
    if status != 0:
        return failed(f"the run ended with status {status}")
    say(f"it came back by itself and finished all {STEPS} steps")

    folder = next((RUN / "runs").glob("*-demo"))
    say("AFTER: why the first attempt ended, from what it left")
    began = time.monotonic()
    if ask("why", str(folder / "attempt-0")) != 1:
        return failed("nothing was found wrong with the attempt that crashed")
    say(f"answered in {time.monotonic() - began:.1f} s")
    ask("runs", "--run-dir", str(RUN / "runs"))
    return 0


def check(indices: list[int]) -> int:
    """``keepstep check`` in one process a worker, as a launcher would start it; the first prints for all."""
    ports = free_ports(WORKERS)
    say(f"asking, in each of {WORKERS} processes: keepstep check --wait")
    print(flush=True)
    command = [*KEEPSTEP, "check", "--wait", "--path", str(RUN)]
    checks = [subprocess.Popen(command, env={**os.environ, "TF_CONFIG": tf_config(index, ports)}) for index in indices]
    try:
        statuses = [each.wait(120) for each in checks]
    finally:
        for each in checks:
            each.kill()
            each.wait()
    print(flush=True)
    return statuses[0]


def tf_config(index: int, ports: list[int]) -> str:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def ask(*words: str) -> int:
    """One call of keepstep, as a user types it."""
    shown = [word.replace(f"{RUN}/", "") for word in words]
    say(f"asking: keepstep {' '.join('python' if word == sys.executable else word for word in shown)}")
    print(flush=True)
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "1"}
    status = subprocess.run([*KEEPSTEP, *words], cwd=RUN, env=env).returncode  # a core file is left where one works
    print(flush=True)
    return status


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def failed(why: str) -> int:
    say(f"this is not what should happen: {why}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
