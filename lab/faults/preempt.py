"""SIGTERM to what launched the job, as a scheduler sends when it takes the machine back."""

import signal

from lab.launch import Run


def outside(run: Run) -> None:
    if run.wait_for(run.scenario.mark):
        for process in run.processes:
            process.send_signal(signal.SIGTERM)
