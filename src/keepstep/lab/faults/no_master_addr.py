# SPDX-License-Identifier: Apache-2.0
"""The launcher did not say where rank 0 is: no MASTER_ADDR."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for env in run.env:
        del env["MASTER_ADDR"]


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    if any("MASTER_ADDR" in env for env in run.env):
        raise Unproven("MASTER_ADDR was set")
    return "no process was given MASTER_ADDR"
