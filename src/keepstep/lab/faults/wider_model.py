# SPDX-License-Identifier: Apache-2.0
"""The rank builds the model with another hidden width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_model(model: Any) -> Any:
    return type(model)(width=96)


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
