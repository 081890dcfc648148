# SPDX-License-Identifier: Apache-2.0
"""Every rank waits for a world one rank larger than was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for env in run.env:
        env["WORLD_SIZE"] = str(run.scenario.ranks + 1)


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = {env["WORLD_SIZE"] for env in run.env}
    if told == {str(len(run.processes))}:
        raise Unproven("WORLD_SIZE is right")
    return f"WORLD_SIZE is {told.pop()}, {len(run.processes)} processes were started"
