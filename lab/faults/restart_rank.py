"""One rank dies and something starts it again, into the cluster of the others, which know the old one."""

import os
import signal
import time

from lab.launch import Run, start_rank


def outside(run: Run) -> None:
    rank = run.scenario.struck
    if run.wait_for(run.scenario.mark):
        os.kill(run.pid_of(rank), signal.SIGKILL)
        time.sleep(0.2)
        start_rank(run, rank)
