# SPDX-License-Identifier: Apache-2.0
"""The rank enters a barrier that stands under `if rank == 0`; its peers never do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import torch.distributed as dist

    dist.barrier()


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.proof_that_it_struck()
    if run.scenario.hang and not run.alive(run.scenario.struck):
        raise Unproven(f"rank {run.scenario.struck} has ended")
    return f"{told} and did not get out of it"
