# SPDX-License-Identifier: Apache-2.0
"""Two processes were given the same rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    run.env[2]["RANK"] = "1"


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    ranks = [env["RANK"] for env in run.env]
    if len(set(ranks)) == len(ranks):
        raise Unproven("no two ranks are the same")
    return f"the processes were given the ranks {', '.join(ranks)}"
