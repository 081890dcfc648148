# SPDX-License-Identifier: Apache-2.0
"""The rank is still preprocessing when its peers enter a monitored barrier with a short limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_preprocess(seconds: float) -> float:
    time.sleep(12)
    return seconds


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
