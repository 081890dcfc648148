# SPDX-License-Identifier: Apache-2.0
"""The report on an attempt, made of its folder alone: `keepstep why` on the run folder makes the same one."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.core.report import Report
from keepstep.supervise.progress import Progress, progress_of


def explain(folder: Path) -> tuple[Report, Progress]:
    """The report, and how far the attempt came."""
    explained = explain_paths([folder], kernel_log=True)
    return explained.report, progress_of(explained.seen)
