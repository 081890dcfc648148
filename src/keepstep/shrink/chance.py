# SPDX-License-Identifier: Apache-2.0
"""Failures that do not come every time: how often a candidate has to be run before it is judged (Wald's test)."""

from __future__ import annotations

import math
from dataclasses import dataclass

TAKEN, REFUSED = 0.1, 0.2
"""How often, at most, one at the floor is taken, and a candidate that fails as often as the original is refused."""
FLOOR = 1 / 3
"""The share of the original's failure rate that must be left."""
LEAST, MOST = 0.02, 0.98


@dataclass(frozen=True)
class Chance:
    """``rate``: how often the original fails."""

    rate: float

    @property
    def floor(self) -> float:
        return FLOOR * self.rate

    def keeps_failing(self, failed: int, runs: int) -> bool | None:
        """Whether a candidate fails often enough; None: run it again."""
        high = min(max(self.rate, LEAST), MOST)
        low = FLOOR * high
        score = failed * math.log(high / low) + (runs - failed) * math.log((1 - high) / (1 - low))
        takes, refuses = math.log((1 - REFUSED) / TAKEN), math.log(REFUSED / (1 - TAKEN))
        return True if score >= takes else False if score <= refuses else None
