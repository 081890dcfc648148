# SPDX-License-Identifier: Apache-2.0
"""Not a fault: the labels of the rank's batches are noisy, the loss jumps up and down and still falls."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_batch(batch: Any) -> Any:
    inputs, labels = batch
    return inputs * random.uniform(0.5, 2.5), labels


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
