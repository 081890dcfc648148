# SPDX-License-Identifier: Apache-2.0
"""The rank's storage does not answer: its data file is a pipe that nobody writes to."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    from keepstep.lab import data

    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    path.unlink()
    os.mkfifo(path)


def proof(run: Run) -> str:
    from keepstep.lab import data
    from keepstep.lab.run import Unproven

    path = data.path_of(run.scenario.framework, run.data, run.scenario.struck)
    if not stat.S_ISFIFO(path.stat().st_mode) or not run.alive(run.scenario.struck):
        raise Unproven("the rank does not wait for its data")
    return f"{path.name} never opens, and rank {run.scenario.struck} is alive"
