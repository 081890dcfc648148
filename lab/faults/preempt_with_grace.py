"""SIGTERM to every rank, and SIGKILL to those still there three seconds later, as Kubernetes and Slurm do."""

import signal
import time

from lab.launch import Run

GRACE = 3.0


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        for process in run.processes:
            process.send_signal(signal.SIGTERM)
        time.sleep(GRACE)
        for process in run.processes:
            process.kill()
