# SPDX-License-Identifier: Apache-2.0
"""Remembers this rank's best pace for longer than the black box does, and notes when it stays worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keepstep.signals.pace import BestPace

if TYPE_CHECKING:
    from keepstep.guard.protocols import HasRecords

RECORDS = 400


class OwnPast:
    """Called by the guard's own thread; takes a millisecond, three times per minute."""

    period_s = 20.0
    part = "own past"

    def __init__(self, session: HasRecords) -> None:
        self._session = session
        self._past: BestPace | None = None
        self._steps = 0
        self._told = False

    def __call__(self) -> None:
        session = self._session
        rank, new = session.who.rank, session.steps - self._steps
        if self._told or rank is None or new <= 0:
            return
        self._steps = session.steps
        self._past = self._past or BestPace(rank)
        late = self._past.see(session.recent(RECORDS))
        if late is None:
            return
        self._told = True
        fields = {
            "phase": late.phase.name.lower(),
            "seconds": round(late.seconds, 4),
            "usual_s": round(late.others_s, 4),
        }
        fields |= {
            "against": "past",
            "steps": late.steps,
            "step_s": round(late.step_s, 4),
            "before_s": late.before_s,
            "held": late.held,
        }
        what = "a processor" if late.held else "its batches"
        words = (
            f"waits {late.seconds:.3f} s for {what} in each step of {late.step_s:.3f} s; before, {late.others_s:.3f} s"
        )
        session.note("RankLate", fields, words)
