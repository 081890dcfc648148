# SPDX-License-Identifier: Apache-2.0
"""Not a fault: one rank starts some seconds after the others, which retry until it is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SECONDS = 6.0


def prepare(run: Run) -> None:
    run.order.reverse()
    run.delay[0] = SECONDS


def outside(run: Run) -> None:
    later = _started(run.processes[0].pid) - _started(run.processes[1].pid)
    run.strike(f"rank 0 started {later:.1f} s after rank 1")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.strikes()[-1][1]
    if float(told.split()[3]) < SECONDS - 1:
        raise Unproven(told)
    return told


def _started(pid: int) -> float:
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")
