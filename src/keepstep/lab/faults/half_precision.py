# SPDX-License-Identifier: Apache-2.0
"""The rank's inputs have half of the precision of the others': JAX compiles another program for them and trains on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    return inputs.astype("float16"), labels


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
