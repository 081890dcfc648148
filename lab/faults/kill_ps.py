"""SIGKILL from outside to the parameter server."""

import os
import signal

from lab.launch import Run


def outside(run: Run) -> None:
    if run.wait_for("step 60"):
        os.kill(run.pid_of((run.scenario.strike_ranks or (2,))[0]), signal.SIGKILL)
