# SPDX-License-Identifier: Apache-2.0
"""Every process waits for one more process than was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for env in run.env:
        env["NUM_PROCESSES"] = str(run.scenario.ranks + 1)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    asked = {env["NUM_PROCESSES"] for env in run.env}
    if asked != {str(len(run.processes) + 1)}:
        raise Unproven(f"NUM_PROCESSES is {asked} and {len(run.processes)} were started")
    return f"NUM_PROCESSES is {asked.pop()}, {len(run.processes)} were started"
