# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP from outside to one rank, as a debugger or a frozen container does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        os.kill(run.pid_of(run.scenario.struck), signal.SIGSTOP)
        run.strike(f"SIGSTOP to rank {run.scenario.struck}")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    state = Path(f"/proc/{run.pid_of(run.scenario.struck)}/stat").read_text().rpartition(")")[2].split()[0]
    if state != "T":
        raise Unproven(f"rank {run.scenario.struck} is not stopped: its state is {state}")
    return f"rank {run.scenario.struck} is in state T (stopped)"
