# SPDX-License-Identifier: Apache-2.0
"""The rank's input holds a NaN from some step on (NumPy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    return inputs * float("nan"), labels


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
