# SPDX-License-Identifier: Apache-2.0
"""The rank opens files and never closes them, until the limit of open files is reached."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from keepstep.lab.run import Run

held: list[TextIO] = []


def at(step: int, rank: int) -> None:
    while True:
        held.append(open(os.path.join(os.environ["KEEPSTEP_LAB_WORK"], f"shard-{len(held):05d}.txt"), "a"))


def proof(run: Run) -> str:
    opened = len(list(run.work.glob("shard-*.txt")))
    return f"{opened} files were opened; {run.proof_in_log(run.scenario.struck, 'Too many open files')}"
