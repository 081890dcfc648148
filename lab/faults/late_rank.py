"""Not a fault: one rank starts some seconds after the others, which retry until it is there."""

from lab.launch import Run


def prepare(run: Run) -> None:
    run.order.reverse()
    run.delay[0] = 6.0
