"""One rank was told to train for fewer steps than the others, and leaves early."""

from lab.launch import Run


def prepare(run: Run) -> None:
    for rank in run.scenario.strike_ranks or (1,):
        run.args[rank] += ["--steps", "50"]
