# SPDX-License-Identifier: Apache-2.0
"""Not a fault: sequences differ in length, so some steps take ten times as long as others."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_batch(batch: Any) -> Any:
    end = time.monotonic() + random.choice((0.0, 0.01, 0.02, 0.2))
    while time.monotonic() < end:
        sum(range(1000))
    return batch


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
