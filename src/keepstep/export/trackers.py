# SPDX-License-Identifier: Apache-2.0
"""A run in Weights & Biases or MLflow: its curves, what it was, and why it ended. Their own settings say where to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from keepstep.analyze.goodput import findings_of
from keepstep.analyze.run_metrics import metric_name
from keepstep.base.redact import redact
from keepstep.errors import Unavailable
from keepstep.export.curves import curves
from keepstep.store.run_folders import read_manifest

LONGEST = 250
"""Characters of a text: MLflow refuses longer names and keys."""


class Row(NamedTuple):
    """What was measured at one time."""

    at: float
    step: int
    values: dict[str, float]


Sender = Callable[[str, str, Mapping[str, str], Iterator[Row]], str]
"""Given the project, the run's name, what is known about it, and its curves. Returns where it lies."""


def send(run: Path, tool: str, project: str) -> str:
    """``tool``: a name of ``TOOLS``. Raises ``Unavailable`` where its package is missing, or cannot send."""
    known, values = about(run), rows(run)
    try:
        return TOOLS[tool](project, run.resolve().name, known, values)
    except ImportError as error:
        raise Unavailable(f"{tool} cannot be imported: {error}", hint=f"pip install {tool}") from None
    except Exception as error:  # whatever a foreign package raises: no server, no account, a full disk
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise Unavailable(f"{tool} says: {redact(first)}", hint="its own settings say where it sends to") from error


def about(run: Path) -> dict[str, str]:
    """The command, how it ended, and its first finding."""
    manifest = read_manifest(run)
    found = {"folder": str(run.resolve())}
    if manifest is not None:
        found |= {"command": shlex.join(manifest.command), "state": manifest.state, "ranks": str(manifest.ranks)}
        found["restarts"] = str(max(0, len(manifest.attempts) - 1))
        last = run / f"attempt-{manifest.attempts[-1].number}" if manifest.attempts else run
        for each in findings_of(last)[:1]:
            found |= {"finding": str(each.get("title")), "cause": str(each.get("cause"))}
    return {f"keepstep.{name}": redact(text)[:LONGEST] for name, text in found.items()}


def rows(run: Path) -> Iterator[Row]:
    """The values of each second, by ``GROUP/READING_UNIT``, in the order of time."""
    _, groups = curves(run)
    by_step: dict[int, Row] = {}
    for group, values in groups.items():
        place = re.sub(r"[^A-Za-z0-9_.-]", "-", group)
        for each in values:
            row = by_step.setdefault(each.step, Row(each.at, each.step, {}))
            row.values[f"{place}/{metric_name(each.reading)}"] = each.value
    return (by_step[step] for step in sorted(by_step))


def _to_wandb(project: str, name: str, about: Mapping[str, str], rows: Iterator[Row]) -> str:
    import wandb

    run = wandb.init(project=project, name=name, config=dict(about), settings=wandb.Settings(console="off"))
    for row in rows:
        run.log(row.values, step=row.step)
    run.finish()
    return run.url or str(run.dir)


def _to_mlflow(project: str, name: str, about: Mapping[str, str], rows: Iterator[Row]) -> str:
    import mlflow

    mlflow.set_experiment(project)
    with mlflow.start_run(run_name=name, tags=dict(about)) as run:
        client = mlflow.MlflowClient()
        for row in rows:
            at = int(1000 * row.at)
            values = [mlflow.entities.Metric(key, value, at, row.step) for key, value in row.values.items()]
            client.log_batch(run.info.run_id, metrics=values)
    return f"{mlflow.get_tracking_uri()}, run {run.info.run_id}"


TOOLS: dict[str, Sender] = {"wandb": _to_wandb, "mlflow": _to_mlflow}
