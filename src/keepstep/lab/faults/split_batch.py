# SPDX-License-Identifier: Apache-2.0
"""The job splits every batch into three equal parts; the last batch of an epoch does not divide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run

PARTS = 3


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    inputs = inputs.view(PARTS, len(labels) // PARTS, -1)
    return inputs.flatten(0, 1), labels


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
