"""TF_CONFIG of the last worker has an index that the cluster does not have."""

from lab.launch import Run


def prepare(run: Run) -> None:
    last = run.scenario.ranks - 1
    run.env[last]["TF_CONFIG"] = run.env[last]["TF_CONFIG"].replace(
        f'"index": {last}', f'"index": {last + 1}'
    )
