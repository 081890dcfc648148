# SPDX-License-Identifier: Apache-2.0
"""Two processes were given the same process id."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    run.env[2]["PROCESS_ID"] = "1"


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    ids = [env["PROCESS_ID"] for env in run.env]
    if len(set(ids)) == len(ids):
        raise Unproven(f"the ids are {ids}")
    return f"the processes have the ids {', '.join(ids)}"
