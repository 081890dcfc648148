# SPDX-License-Identifier: Apache-2.0
"""``keepstep export``: a run for other people's tools."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path
from urllib.parse import unquote

from keepstep.analyze.question import run_place
from keepstep.base.wording import count
from keepstep.cli.arguments.export import TRACKERS
from keepstep.errors import UserError

HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def export_verb(asked: argparse.Namespace) -> int:
    """Write or send it."""
    run = run_place(asked.run)
    for option, form in (("logdir", ("tensorboard",)), ("to", ("otlp",)), ("project", TRACKERS)):
        if getattr(asked, option) and asked.form not in form:
            raise UserError(f"--{option} is for {' and '.join(form)}")
    if asked.form == "tensorboard":
        return _tensorboard(run, Path(asked.logdir) if asked.logdir else run / "tensorboard")
    if asked.form in TRACKERS:
        return _tracker(run, asked.form, asked.project or "keepstep")
    return _otlp(run, asked.to)


def _tracker(run: Path, tool: str, project: str) -> int:
    from keepstep.export.trackers import send

    print(f"exported to {tool}: {send(run, tool, project)}")
    return 0


def _tensorboard(run: Path, folder: Path) -> int:
    from keepstep.export.tensorboard import write_curves

    written = write_curves(run, folder)
    print(f"{count(len(written), 'group')} of curves; look at them:")
    print(f"  tensorboard --logdir {shlex.quote(str(folder))}")
    return 0


def _otlp(run: Path, to: str | None) -> int:
    from keepstep.export import opentelemetry

    document = opentelemetry.spans(run)
    if to is None:
        print(json.dumps(document, indent=1))
        return 0
    opentelemetry.post(document, to, _headers(os.environ.get(HEADERS, "")))
    total = len(document["resourceSpans"][0]["scopeSpans"][0]["spans"])
    print(f"{count(total, 'span')} sent")
    return 0


def _headers(text: str) -> dict[str, str]:
    """As OpenTelemetry writes them: ``name=value,name=value``."""
    pairs = (each.partition("=") for each in text.split(",") if "=" in each)
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
