# SPDX-License-Identifier: Apache-2.0
"""Whether a rank loses clearly more of each step than it did before to its own batches or processor. Pure.

Longer steps as a whole prove nothing: all ranks wait for the slowest, and a training may get heavier by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from keepstep.signals.blackbox import Phase, Record
from keepstep.signals.pace import CROWDED, Late, input_and_step
from keepstep.signals.processor_wait import crowding, held_share

LOOKS = 6
"""This many samples in a row."""
TIMES = 3.0
SHARE = 0.3
"""Share of a step."""


@dataclass
class Past:
    """What the rank lost at its best. Fed with its last records now and then; the same records give the same answer."""

    rank: int
    _best: dict[bool, float] = field(default_factory=dict)
    _worse: dict[bool, int] = field(default_factory=dict)

    def see(self, records: Sequence[Record]) -> Late | None:
        """Takes its last records, oldest first, and returns a loss that has lasted; the caller reports it once."""
        known = input_and_step(records)
        if known is None:
            return None
        waits, step, steps = known
        held, crowd = held_share(records), crowding(records)
        for by_processor, share in ((False, waits / max(step, 1)), (True, held)):
            if share is None:
                continue
            best = self._best.get(by_processor, share)
            self._best[by_processor] = min(best, share)
            worse = share > SHARE and share > TIMES * crowd * best and not (by_processor and crowd >= CROWDED)
            self._worse[by_processor] = self._worse.get(by_processor, 0) + 1 if worse else 0
            if self._worse[by_processor] >= LOOKS:
                lost, before = share * step / 1e9, best * step / 1e9
                phase = Phase.COMPUTE if by_processor else Phase.INPUT
                return Late(self.rank, phase, lost, before, step / 1e9, steps, before, held=by_processor)
        return None
