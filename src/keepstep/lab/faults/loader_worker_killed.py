# SPDX-License-Identifier: Apache-2.0
"""SIGKILL from outside to a data loading worker process of one rank."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    """While ``at`` holds the training: the worker is certain to be needed again."""
    if run.until(lambda: any("struck" in what for _, what in run.strikes())):
        for pid in run.children_of(run.pid_of(run.scenario.struck)):
            if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                run.strike(f"SIGKILL to loader worker {pid}")
                return


def at(step: int, rank: int) -> None:
    time.sleep(1)


def proof(run: Run) -> str:
    return run.proof_in_log(run.scenario.struck, "is killed by signal: Killed")
