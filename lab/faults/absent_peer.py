"""Some ranks are never started; the others wait for them."""

from lab.launch import Run


def prepare(run: Run) -> None:
    run.absent |= set(run.scenario.strike_ranks or (0,))
