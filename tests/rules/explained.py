# SPDX-License-Identifier: Apache-2.0
"""What keepstep finds in logs that a test writes, one per keyword."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def causes(folder: Path, **logs: str) -> list[str]:
    return [found.cause.value for found in findings(folder, **logs)]


def root(folder: Path, **logs: str) -> str | None:
    return next(iter(causes(folder, **logs)), None)
