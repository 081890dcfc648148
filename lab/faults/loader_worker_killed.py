"""SIGKILL from outside to a data loading worker process of one rank."""

import os
import signal
import time
from pathlib import Path

from lab.launch import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        parent = run.pid_of(run.scenario.struck)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for pid in run.children_of(parent):
                if b"lab/jobs/" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    return


def at(step: int, rank: int) -> None:
    time.sleep(1)
