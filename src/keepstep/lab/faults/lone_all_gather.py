# SPDX-License-Identifier: Apache-2.0
"""The rank gathers something for its log under `if rank == 0`; its peers are in DDP's next collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import torch
    import torch.distributed as dist

    dist.all_gather([torch.zeros(6) for _ in range(dist.get_world_size())], torch.ones(6))


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.proof_that_it_struck()
    if not run.alive(run.scenario.struck):
        raise Unproven(f"rank {run.scenario.struck} has ended")
    return f"{told} and is still there"
