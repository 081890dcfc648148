# SPDX-License-Identifier: Apache-2.0
"""The rank enters a broadcast that its peers do not: the ranks' orders of collectives differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.zeros(3), src=rank)


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
