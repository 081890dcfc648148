# SPDX-License-Identifier: Apache-2.0
"""The rank's batches have fewer rows than the others': JAX trains on with other global shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    return inputs[: 3 * len(inputs) // 4], labels[: 3 * len(labels) // 4]


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
