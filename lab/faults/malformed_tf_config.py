"""TF_CONFIG of worker 1 is no JSON: a comma is missing."""

from lab.launch import Run


def prepare(run: Run) -> None:
    run.env[1]["TF_CONFIG"] = run.env[1]["TF_CONFIG"].replace(", ", " ")
