# SPDX-License-Identifier: Apache-2.0
"""``keepstep.should_stop()`` and ``keepstep.on_preemption(save)``: all ranks stop at the same step, in time to save."""

from __future__ import annotations

import atexit
import contextlib
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.base.wording import duration
from keepstep.errors import OutOfStep
from keepstep.guard.same_step import channel
from keepstep.guard.same_step.agreed_call import AgreedCall, Reason
from keepstep.guard.together.guarding import guarding
from keepstep.guard.together.stop_notices import StopNotices
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.session import Session

PART = "preemption"
LOOK_S = 0.5
WAIT_S = 120.0
"""For the guards of the other ranks to say how far they are; a thread may have to wait for a compiler."""
IN_A_STEP = (BoxPhase.COMPUTE, BoxPhase.INPUT)
PREEMPTED = 143
"""The status of a process that SIGTERM ended."""


def should_stop() -> bool:
    """True on every rank, in the same call, once one of them is to be ended. Save then, and leave the loop.

    Call it on every rank once per step. It waits only after a notice: SIGTERM (of Slurm, Kubernetes, torchrun, Ray
    through `keepstep run`), SIGUSR1 in a Slurm job, or Slurm's time limit. From the first call on, SIGTERM does not end
    this process by itself any more. Always False with ``KEEPSTEP=off``.
    """
    stopping = _stopping("should_stop")
    if stopping is None:
        return False
    stopping.notices.listen()
    return stopping.call.is_due(WAIT_S)


def on_preemption(save: Callable[[], Any]) -> None:
    """Call ``save()`` on every rank after the same step once one of them is to be ended, then exit with status 143.

    For loops that are not yours, such as Keras' ``fit`` or a trainer; the guard must see the steps. In JAX, where a
    hook cannot see the new state, use :func:`should_stop`, or ``guard.steps`` around your batches.
    """
    stopping = _stopping("on_preemption")
    if stopping is None:
        return
    stopping.notices.listen()
    session = stopping.session

    def after_step() -> None:
        if session.framework == "jax" and not session.by_hand:
            session.at_step.remove(after_step)
            stopping.notices.give_back()
            session.say("on_preemption does nothing here: no hook sees JAX's new state; call keepstep.should_stop()")
            return
        stopping.notices.listen()
        if stopping.call.is_due(WAIT_S):
            try:
                with session.during(int(BoxPhase.CHECKPOINT)):
                    save()
            except Exception as error:  # a hook may not raise it, and it must not be hidden
                traceback.print_exc()
                raise SystemExit(1) from error
            raise SystemExit(PREEMPTED)

    if stopping.after_step in session.at_step:  # the newest call counts
        session.at_step.remove(stopping.after_step)
    stopping.after_step = after_step
    session.at_step.append(after_step)


class Stopping:
    """What one function of this process knows."""

    def __init__(self, session: Session, function: str) -> None:
        self.session = session
        self.after_step: Callable[[], None] | None = None
        self.notices = StopNotices(lambda: session.who.rank)
        self.call = AgreedCall(
            function, lambda: channel.find(session, f"keepstep.{function}"), self._told, self._settled
        )
        self._warned = False
        self.notices.listen()
        session.tell_who()  # at once: the supervisor gives a rank time to save only if it is known to hear SIGTERM
        session.pulse.every(LOOK_S, PART, self.look)
        session.at_leaving.append(self.call.leave)
        atexit.register(self.call.leave)

    def look(self) -> None:
        """By the guard's thread, whatever the training is doing."""
        with contextlib.suppress(OutOfStep):  # the ranks have not met yet
            reason = self.notices.new(self._needs_s())
            if reason is not None:
                self.call.ask_all(reason)
            self.call.look()
        self._warn()

    def _warn(self) -> None:
        """While there is time: this rank has not come to the agreed step, and a save needs what is left."""
        reason, call, session = self.call.reason, self.call, self.session
        if self._warned or reason is None or reason.left_s is None:
            return
        left_s = self._left_s(reason)
        if (call.at is not None and call.passed >= call.at) or left_s > max(self._needs_s(), reason.left_s / 4):
            return
        self._warned = True
        doing = BoxPhase(session.phase_now)
        busy = f"in step {session.steps + 1}" if doing in IN_A_STEP else f"in its {doing.name.lower()}"
        session.say(
            f"{duration(max(left_s, 0.0))} are left, and this rank is still {busy}: it may not save in time",
            always=True,
        )

    def _left_s(self, reason: Reason) -> float:
        return (reason.left_s or 0.0) - (time.monotonic() - self.call.heard_at)

    def _needs_s(self) -> float:
        return (self.session.usual_step_s or 0.0) + (self.session.ledger.usual_save_s or 0.0)

    def _told(self, reason: Reason) -> None:
        session = self.session
        session.is_to_stop = True
        if reason.rank != session.who.rank and session.who.rank not in (0, None):
            return
        left = f", {duration(reason.left_s)} are left" if reason.left_s is not None else ""
        by = reason.by if reason.rank == session.who.rank else f"{reason.by} on rank {reason.rank}"
        doing = BoxPhase(session.phase_now)
        during = "" if doing in IN_A_STEP else f", once the {doing.name.lower()} is over"
        session.say(f"{by}{left}: all ranks stop after the same step{during}", always=True)

    def _settled(self, reason: Reason) -> None:
        session, saves_s = self.session, self.session.ledger.usual_save_s
        if reason.left_s is None or saves_s is None or session.who.rank not in (0, None):
            return
        left_s = self._left_s(reason)
        if self._needs_s() > left_s:
            session.say(
                f"the save may not make it: the last ones took {duration(saves_s)}, and {duration(max(left_s, 0.0))} "
                "are left; save more often, or ask for more time (--grace)",
                always=True,
            )


_known: dict[str, Stopping] = {}


def _stopping(function: str) -> Stopping | None:
    """What this function of the script knows; None with ``KEEPSTEP=off``."""
    if function not in _known:
        session = guarding()
        if session is None:
            return None
        _known[function] = Stopping(session, function)
    return _known[function]
