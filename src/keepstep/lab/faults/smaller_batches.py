# SPDX-License-Identifier: Apache-2.0
"""One rank was told smaller batches than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ROWS = 12


def prepare(run: Run) -> None:
    for rank in run.scenario.strike_ranks or (1,):
        run.args[rank] += ["--batch", str(ROWS)]


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if run.args[run.scenario.struck][-2:] != ["--batch", str(ROWS)]:
        raise Unproven("all ranks have the same arguments")
    return f"rank {run.scenario.struck} has batches of {ROWS} rows"
