# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep export``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

TRACKERS = ("wandb", "mlflow")


def add(verbs: Verbs) -> None:
    """Add the verb."""
    about = (
        "Write a run for other tools, from its folder alone.\n"
        "  tensorboard  curves of steps, memory, processors, network and GPUs\n"
        "  otlp         OpenTelemetry spans: run, attempts, restarts, findings\n"
        "  wandb, mlflow  the curves and the first finding, by their packages"
    )
    export = add_verb(verbs, "export", "write a run for TensorBoard, OpenTelemetry, W&B or MLflow", about)
    export.add_argument(
        "form", choices=("tensorboard", "otlp", *TRACKERS), metavar="FORM", help="tensorboard, otlp, wandb or mlflow"
    )
    export.add_argument("run", metavar="RUN", help="a run folder, or `last`")
    export.add_argument("--logdir", metavar="DIR", help="tensorboard: where to write (default: RUN/tensorboard)")
    export.add_argument(
        "--to", metavar="URL", help="otlp: send to this collector, for example http://localhost:4318 (default: print)"
    )
    export.add_argument(
        "--project", metavar="NAME", help="wandb and mlflow: the project, or experiment (default: keepstep)"
    )
