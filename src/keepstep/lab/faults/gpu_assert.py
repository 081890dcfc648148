# SPDX-License-Identifier: Apache-2.0
"""A kernel on the GPU looks up a class that does not exist: a device-side assert."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import torch

    table = torch.zeros(10, 4, device="cuda")
    print(torch.nn.functional.embedding(torch.tensor([10], device="cuda"), table).sum().item())


def proof(run: Run) -> str:
    return run.proof_in_log(run.scenario.struck, "device-side assert")
