# SPDX-License-Identifier: Apache-2.0
"""Not a fault: the first step begins, in which the model is compiled; only the moment is noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    pass


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
