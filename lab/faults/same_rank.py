"""Two processes were given the same rank."""

from lab.launch import Run


def prepare(run: Run) -> None:
    run.env[2]["RANK"] = "1"
