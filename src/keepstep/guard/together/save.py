# SPDX-License-Identifier: Apache-2.0
"""``keepstep.should_save()``: all ranks save after the same step when `keepstep save` asks them to."""

from __future__ import annotations

import atexit
import contextlib
import time
from typing import TYPE_CHECKING

from keepstep.errors import OutOfStep
from keepstep.guard.same_step import channel
from keepstep.guard.same_step.agreed_call import AgreedCall, Reason
from keepstep.guard.together.guarding import guarding
from keepstep.guard.together.stop import WAIT_S
from keepstep.store import save_request

if TYPE_CHECKING:
    from keepstep.guard.session import Session

PART = "save on request"
LOOK_S = 1.0


def should_save() -> bool:
    """True on every rank, in the same call, after `keepstep save RUN` has asked for it; once for each request.

    Call it on every rank once per step. It waits only after a request. Always False with ``KEEPSTEP=off``.
    """
    global _saving
    if _saving is None:
        session = guarding()
        if session is None:
            return False
        _saving = _Saving(session)
    if not _saving.call.is_due(WAIT_S):
        return False
    _saving.call.done()
    return True


class _Saving:
    """What this process knows about requests."""

    def __init__(self, session: Session) -> None:
        self._session, self._since = session, time.time_ns()
        self.call = AgreedCall(
            "should_save", lambda: channel.find(session, "keepstep.should_save"), settled=self._settled
        )
        session.who.saves_on_request = True
        session.tell_who()
        session.pulse.every(LOOK_S, PART, self.look)
        session.at_leaving.append(self.call.leave)
        atexit.register(self.call.leave)

    def look(self) -> None:
        """By the guard's thread. Rank 0 reads requests, and tells the others."""
        session = self._session
        number = save_request.asked(session.folder) if self._counts and session.folder is not None else None
        with contextlib.suppress(OutOfStep):  # the ranks have not met yet
            if number is not None and number > self._since:
                self.call.ask_all(Reason(number, "keepstep save"))
            self.call.look()

    @property
    def _counts(self) -> bool:
        return self._session.who.rank in (0, None)

    def _settled(self, reason: Reason) -> None:
        session, call = self._session, self.call
        if self._counts and session.folder is not None and call.at is not None:
            step = session.steps + call.at - call.passed
            save_request.answer(session.folder, reason.number, step)
            session.say(f"all ranks save at the same step, about step {step}, as `keepstep save` asked")


_saving: _Saving | None = None
