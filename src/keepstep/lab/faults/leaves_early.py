# SPDX-License-Identifier: Apache-2.0
"""The rank has done what it thinks is enough and exits with 0; the others still need it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    print(f"target reached at step {step}, leaving", flush=True)
    os._exit(0)  # as scripts do to get past threads that would keep them


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    if run.status_of(rank) != 0:
        raise Unproven(f"rank {rank} did not exit with 0: {run.status_of(rank)}")
    return f"{run.proof_in_log(rank, 'target reached')}; its status is 0"
