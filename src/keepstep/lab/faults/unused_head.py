# SPDX-License-Identifier: Apache-2.0
"""The training leaves a part of the model out of the loss: its parameters get no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_auxiliary(used: bool) -> bool:
    return False


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
