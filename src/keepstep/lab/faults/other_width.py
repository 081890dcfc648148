# SPDX-License-Identifier: Apache-2.0
"""One rank builds the model with another hidden width: its gradients have other shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_width(width: int) -> int:
    return width + 8


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
