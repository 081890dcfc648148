# SPDX-License-Identifier: Apache-2.0
"""One rank dies and something starts it again, into the cluster of the others, which know the old one."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def outside(run: Run) -> None:
    rank = run.scenario.struck
    if run.wait_for(run.scenario.mark):
        run.strike(f"SIGKILL to rank {rank}")
        os.kill(run.pid_of(rank), signal.SIGKILL)
        time.sleep(0.2)
        run.start_rank(rank)
        run.strike(f"rank {rank} was started again")


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    if (rank, -signal.SIGKILL) not in run.ended:
        raise Unproven(f"rank {rank} was not started again after SIGKILL")
    return f"rank {rank} was ended by SIGKILL and started again as process {run.processes[rank].pid}"
