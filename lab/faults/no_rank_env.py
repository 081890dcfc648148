"""The launcher did not tell the processes who they are: no RANK, TF_CONFIG or PROCESS_ID."""

from lab.launch import Run

NAMES = {"torch": "RANK", "tensorflow": "TF_CONFIG", "jax": "PROCESS_ID"}


def prepare(run: Run) -> None:
    for env in run.env:
        del env[NAMES[run.scenario.framework]]
