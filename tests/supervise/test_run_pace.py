# SPDX-License-Identifier: Apache-2.0
"""The status line of a run: what it says while the run goes, and while it does not."""

from __future__ import annotations

import io
import time

import pytest

from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.show import run_terminal
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


def test_time_left_is_part_of_it() -> None:
    sign = Sign(pid=1, rank=0, at=100.0, phase=BoxPhase.COMPUTE, steps=40, progress=100.0, usual_s=0.5)
    assert " · 2.0 steps/s · 15 min left" in Pace().status([sign], {}, 90.0, 0, 900.0)


def test_without_a_terminal_there_is_a_line_every_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_terminal, "STATUS_EVERY_S", 0.2)
    words = io.StringIO()
    terminal = run_terminal.Terminal(out=io.StringIO(), words=words)
    terminal.status("keepstep: too early")
    until = time.monotonic() + 60
    while "later" not in words.getvalue() and time.monotonic() < until:
        terminal.status("keepstep: later")
    terminal.status("keepstep: at once again")
    terminal.close()
    assert words.getvalue() == "keepstep: later\n"
