"""Every process waits for one more than was started."""

from lab.launch import Run


def prepare(run: Run) -> None:
    for env in run.env:
        env["NUM_PROCESSES"] = str(run.scenario.ranks + 1)
