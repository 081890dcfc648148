# SPDX-License-Identifier: Apache-2.0
"""The status line of a run: what it says while the run goes, and while it does not."""

from __future__ import annotations

import pytest

from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.watch.hang_detector import Sign
from keepstep.supervise.watch.run_pace import Pace


@pytest.mark.parametrize(
    ("quiet_s", "said", "unsaid"), [(0.02, "116.3 steps/s", "no progress"), (36.0, "no progress for 36 s", "steps/s")]
)
def test_a_run_that_makes_no_step_has_no_speed(quiet_s: float, said: str, unsaid: str) -> None:
    signs = [
        Sign(pid=pid, rank=pid, at=100.0, phase=phase, steps=40, progress=100.0 - quiet_s - pid, usual_s=0.0086)
        for pid, phase in enumerate((BoxPhase.COMPUTE, BoxPhase.INPUT))
    ]
    line = Pace().status(signs, {}, 90.0, 2)
    assert line.startswith("keepstep: attempt 2 · ") and said in line and unsaid not in line
