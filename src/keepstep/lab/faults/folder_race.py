# SPDX-License-Identifier: Apache-2.0
"""Every rank prepares the same cache folder: looks whether it is there, and makes it. One comes second."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    prepare_cache(Path(os.environ["KEEPSTEP_LAB_WORK"]) / "cache")


def prepare_cache(folder: Path) -> None:
    """Make the folder unless it is there."""
    if not folder.exists():
        time.sleep(1.0)
        os.mkdir(folder)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    for rank in range(run.scenario.ranks):
        if "FileExistsError" in run.log_of(rank):
            return f"rank {rank} found that another had made the folder between its look and its mkdir"
    raise Unproven("no rank came second")
