"""SIGKILL from outside to one rank, once it has trained a while."""

import os
import signal

from lab.launch import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        os.kill(run.pid_of(run.scenario.struck), signal.SIGKILL)
