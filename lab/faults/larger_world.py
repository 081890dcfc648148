"""Every rank waits for a world one larger than was started."""

from lab.launch import Run


def prepare(run: Run) -> None:
    for env in run.env:
        env["WORLD_SIZE"] = str(run.scenario.ranks + 1)
