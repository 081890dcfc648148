# SPDX-License-Identifier: Apache-2.0
"""SIGKILL from outside to one rank, once it has trained a while."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        pid = run.pid_of(run.scenario.struck)
        run.strike(f"SIGKILL to rank {run.scenario.struck}")
        os.kill(pid, signal.SIGKILL)


def proof(run: Run) -> str:
    return run.proof_of_signal(run.scenario.struck, signal.SIGKILL)
