# SPDX-License-Identifier: Apache-2.0
"""Of one attempt on several nodes: limits on what all of them measure, and requests to all ranks. The leader judges."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from keepstep.supervise.nodes.lead.leader import Leader
from keepstep.supervise.watch.alarms import Alarms
from keepstep.supervise.watch.own_evidence import Records
from keepstep.supervise.watch.pause import Pause

EVERY_S = 1.0
"""The run folder may be on a shared file system."""


class LimitsOfAll:
    """``tick`` several times per second, ``end`` with the attempt."""

    def __init__(
        self, folder: Path, leader: Leader, alarms: Alarms | None, say: Callable[[str], None], *, pauses: bool
    ) -> None:
        """``pauses``: whether all ranks take the same steps: only then can they pause after one."""
        self._folder, self._leader, self._alarms, self._pauses = folder, leader, alarms, pauses
        self._say, self._records = say, Records(folder)
        self._pause = Pause(folder, self._tell)
        self._due = 0.0

    def tick(self, quiet_s: float | None) -> None:
        """``quiet_s``: for how long no rank has moved."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + EVERY_S
        self._leader.pass_requests_on()
        self._pause.tick(now)
        if self._alarms is not None:
            pause = self._pause if self._pauses else None
            self._alarms.see(self._leader.measured(), now, self._folder.parent, quiet_s, self._tell, pause)

    def end(self) -> None:
        """The ranks are about to be ended: they need not wait any longer."""
        self._pause.end(time.monotonic())
        self._leader.pass_requests_on()

    def _tell(self, words: str) -> None:
        self._records.said(words)
        self._say(words)
