# SPDX-License-Identifier: Apache-2.0
"""All ranks wait after the same step while somebody asks for it: `keepstep pause`, or a limit of the user.

They wait outside any collective. Each one goes on when the request is withdrawn, when its time is over, or when the
run is to be stopped. Where they cannot agree on a step, the request is withdrawn, and none of them waits any longer.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from typing import TYPE_CHECKING

from keepstep.base.wording import duration
from keepstep.errors import OutOfStep
from keepstep.guard.same_step import channel
from keepstep.guard.same_step.agreed_call import AgreedCall, Reason
from keepstep.signals.blackbox import BoxPhase
from keepstep.store import pause_request

if TYPE_CHECKING:
    from pathlib import Path

    from keepstep.guard.session import Session

PART = "pause"
LOOK_S, WAITS_S = 0.5, 0.1


def begin(session: Session) -> None:
    """From now on this rank can be asked. It has taken no step yet, so all ranks count alike."""
    pausing = Pausing(session)
    session.who.pauses_on_request = True
    session.at_step.append(pausing.after_step)
    session.pulse.every(LOOK_S, PART, pausing.look)
    session.at_leaving.append(pausing.call.leave)
    atexit.register(pausing.call.leave)


class Pausing:
    """What this process knows about requests."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.call = AgreedCall(PART, self._channel)

    def look(self) -> None:
        """By the guard's thread."""
        folder = self._session.folder
        request = pause_request.asked(folder) if folder is not None else None
        with contextlib.suppress(OutOfStep):  # the ranks have not met yet
            if request is not None:
                self.call.ask_all(Reason(request.number, "a pause"))
            if self.call.reason is not None:
                self.call.look()

    def after_step(self) -> None:
        session, folder = self._session, self._session.folder
        try:
            if self.call.is_due(pause_request.AGREE_S):
                assert folder is not None
                self._wait(folder)
                self.call.done()
        except OutOfStep as why:
            if folder is not None:
                pause_request.withdraw(folder)
            session.say(f"{why}; no rank pauses", always=True)
            self.call.done()
        except Exception as error:
            session.at_step.remove(self.after_step)
            session.failed(PART, error)

    def _wait(self, folder: Path) -> None:
        request, session, began = self._standing(), self._session, time.monotonic()
        if request is None:
            return
        says = session.who.rank in (0, None)
        if says:
            longest = duration(request.longest_s)
            session.say(f"all ranks pause after step {session.steps}, for {longest} at most", always=True)
            with contextlib.suppress(OSError):
                pause_request.answer(folder, request.number, session.steps)
        with session.during(int(BoxPhase.RETRY)):
            while self._standing() is not None and time.monotonic() - began < request.longest_s:
                if session.is_to_stop:
                    pause_request.withdraw(folder)
                threading.Event().wait(WAITS_S)  # time.sleep fails under libfaketime
        session.step_ended = time.monotonic_ns()
        if says:
            session.say(f"all ranks go on, after {duration(time.monotonic() - began)}", always=True)

    def _standing(self) -> pause_request.Request | None:
        """The request that this rank acts on, unless it was withdrawn."""
        folder, reason = self._session.folder, self.call.reason
        request = pause_request.asked(folder) if folder is not None else None
        return request if request is not None and reason is not None and request.number == reason.number else None

    def _channel(self) -> channel.Channel | None:
        """None after the request was withdrawn: then there is nothing to agree on."""
        if self.call.reason is not None and self._standing() is None:
            return None
        return channel.find(self._session, "keepstep's pause")
