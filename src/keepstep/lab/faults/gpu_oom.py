# SPDX-License-Identifier: Apache-2.0
"""The rank asks for more memory than its GPU has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import torch

    torch.empty(1 << 44, dtype=torch.uint8, device="cuda")


def proof(run: Run) -> str:
    return run.proof_in_log(run.scenario.struck, "out of memory")
