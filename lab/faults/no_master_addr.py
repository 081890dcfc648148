"""The launcher did not say where rank 0 is: no MASTER_ADDR."""

from lab.launch import Run


def prepare(run: Run) -> None:
    for env in run.env:
        del env["MASTER_ADDR"]
