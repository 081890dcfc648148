"""Two processes were given the same process id."""

from lab.launch import Run


def prepare(run: Run) -> None:
    run.env[2]["PROCESS_ID"] = "1"
