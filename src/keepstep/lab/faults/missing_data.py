# SPDX-License-Identifier: Apache-2.0
"""The rank's data file is not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    _path(run).unlink()


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if _path(run).exists():
        raise Unproven(f"{_path(run).name} is there")
    return f"{_path(run).name} is not on disk"


def _path(run: Run) -> Path:
    from keepstep.lab import data

    return data.path_of(run.scenario.framework, run.data, run.scenario.struck)
