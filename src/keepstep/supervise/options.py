# SPDX-License-Identifier: Apache-2.0
"""What the user asked `keepstep run` for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from keepstep.extend.run_settings import RunSettings
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.supervise.decide.decision import MAX_LOST_WORK_S
from keepstep.supervise.decide.remedy import RemedyMode
from keepstep.supervise.start.launch import Job


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the user asked for."""

    job: Job
    name: str | None = None
    run_dir: Path | None = None
    status_file: Path | None = None
    """Gets the run's status at its end."""
    check: bool = True
    max_attempts: int | None = None
    remedy: RemedyMode = RemedyMode.SAFE
    on_failure: str | None = None
    spares: bool = True
    hang_timeout_s: float | None = None
    suspected_wait_s: float | None = None
    max_lost_work_s: float | None = MAX_LOST_WORK_S
    grace_s: float = 10.0
    quiet: bool = False
    metrics: str | None = None
    """Where Prometheus is answered: ``[ADDRESS:]PORT``."""
    forecasts: tuple[Evidence[Fact], ...] = ()
    """What `keepstep check memory` had said of the training."""
    settings: RunSettings = field(default_factory=RunSettings)
    """Limits on what is measured, and whom to tell."""
