"""The rank lives in a memory cgroup (v1) and grows past its limit: the kernel kills it and logs that."""

import os
import subprocess
import time
from pathlib import Path

from lab.launch import Run

GROUP = Path("/sys/fs/cgroup/memory/keepstep-lab")
LIMIT = 1_500_000_000


def outside(run: Run) -> None:
    before = len(_kernel_log())
    GROUP.mkdir(exist_ok=True)
    run.stack.callback(_remove)
    (GROUP / "memory.limit_in_bytes").write_text(str(LIMIT))
    if run.wait_for("step 20"):
        pid = run.pid_of(run.scenario.struck)
        (GROUP / "cgroup.procs").write_text(str(pid))
        while not run.over.is_set() and len(_kernel_log()) == before:
            time.sleep(0.1)
        time.sleep(0.3)
        (run.logs / "dmesg.log").write_text("\n".join(_kernel_log()[before:]) + "\n")


def at(step: int, rank: int) -> None:
    held = []
    while True:
        held.append(os.urandom(1 << 20) * 32)
        time.sleep(0.02)


def _kernel_log() -> list[str]:
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()


def _remove() -> None:
    for _ in range(50):
        try:
            GROUP.rmdir()
            return
        except OSError:
            time.sleep(0.1)
