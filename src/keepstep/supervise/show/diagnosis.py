# SPDX-License-Identifier: Apache-2.0
"""The report on an attempt, made of its folder alone: `keepstep why` on the run folder makes the same one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.report import Report
from keepstep.supervise.decide.attempt_progress import AttemptProgress, progress_of

_one = threading.Lock()
"""The log scanner is not made for several threads."""


def explain(folder: Path, *more: Path, unwritten: Sequence[Evidence[Fact]] = ()) -> tuple[Report, AttemptProgress]:
    """The report, and how far the attempt came. ``unwritten``: evidence that found no room on the disk."""
    with _one:
        explained = explain_paths([folder, *more], evidence=unwritten, kernel_log=True, own_links=True)
    return explained.report, progress_of(explained.seen)
