# SPDX-License-Identifier: Apache-2.0
"""With which status a run ends, where its engine decides by that status whether to start the run again."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass

FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """None: the run ends with the status of the first rank that failed, or 128 and the signal's number."""

    preempted: int | None = None
    """The engine itself ended the run (SIGTERM): it should start it again."""
    repeats: int | None = None
    """It would fail the same way on any machine: it should not be started again."""

    def of_failure(self, status: int, *, repeats: bool) -> int:
        """``status``: of the rank that failed first. One that means something to the engine is not passed on."""
        if repeats and self.repeats is not None:
            return self.repeats
        return FAILED if status in (self.preempted, self.repeats) else status


AS_IT_IS = Statuses()
