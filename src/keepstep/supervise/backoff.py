# SPDX-License-Identifier: Apache-2.0
"""How long to wait before an attempt: not at all the first time, then twice as long each time, by chance a little less. Pure."""

from __future__ import annotations

FIRST_S = 1.0
LONGEST_S = 300.0


def wait_s(restarts: int, chance: float) -> float:
    """``restarts``: how many there were since the last progress. ``chance`` in [0, 1) spreads those who failed together.

    The first restart costs nothing: most faults are over when their process is, and every second of waiting is lost for all ranks.
    """
    if restarts <= 0:
        return 0.0
    full = min(LONGEST_S, FIRST_S * 2.0 ** min(restarts - 1, 30))
    return round(full * (1.0 - 0.5 * min(max(chance, 0.0), 1.0)), 2)
