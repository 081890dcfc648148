# SPDX-License-Identifier: Apache-2.0
"""Record some steps of this rank with its framework's own profiler when `keepstep profile` asks for it."""

from __future__ import annotations

import inspect
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstep.base.safe_files import make_private
from keepstep.store import profile_request
from keepstep.store.profile_request import Answer, Request

if TYPE_CHECKING:
    from keepstep.guard.protocols import AsksForProfile, Profiled

Finish = Callable[[], Any]
Stop = Callable[[], Finish | None]
"""Stop recording; what it gives writes the rest, and may be called by another thread."""
PART = "profile"
WANTED, STRAGGLERS = "KEEPSTEP_PROFILE", "stragglers"
NOTICE_S, STEPS = 4.0, 5
"""Within this time every guard has seen a request; and how many steps of a straggler are recorded."""


class Profile:
    """Called by the guard's own thread, which looks for a request; the profiler starts and stops between steps."""

    period_s = 1.0
    part = PART

    def __init__(self, session: Profiled) -> None:
        self._session, self._since = session, time.time_ns()
        self._request: Request | None = None
        self._stop: Stop | None = None
        self._began, self._first = 0.0, 0
        self._recorded: tuple[Answer, Finish | None] | None = None

    def __call__(self) -> None:
        session = self._session
        if self._recorded is not None:
            self._write(*self._recorded)
        if self._request is not None or session.folder is None or session.who.rank is None:
            return
        request = profile_request.asked(session.folder)
        if request is None or request.number <= self._since:
            return
        self._since = request.number
        if session.who.rank in request.ranks:
            self._request = request
            session.at_step.append(self._after_step)

    def _after_step(self) -> None:
        session, request = self._session, self._request
        if request is None or session.steps < request.first:
            return
        try:
            if self._stop is None:
                self._stop = _start(session.framework, self._folder(request, session.who.rank or 0))
                self._began, self._first = time.monotonic(), session.steps
            elif session.steps >= self._first + request.steps:
                seconds, finish = time.monotonic() - self._began, self._stop()
                self._end(Answer(session.who.rank or 0, self._first, session.steps, seconds), finish)
        except Exception as error:  # the training's own profiler runs, or this version has none
            why = f"{type(error).__name__}: {error}"[:300]
            self._end(Answer(session.who.rank or 0, session.steps, session.steps, 0.0, why), None)

    def _end(self, answer: Answer, finish: Finish | None) -> None:
        self._session.at_step.remove(self._after_step)
        self._stop, self._recorded = None, (answer, finish)

    def _write(self, answer: Answer, finish: Finish | None) -> None:
        request, self._request, self._recorded = self._request, None, None
        if request is not None and self._session.folder is not None:
            if finish is not None:
                finish()
            self._folder(request, answer.rank)
            profile_request.answer(self._session.folder / request.folder, answer)

    def _folder(self, request: Request, rank: int) -> Path:
        assert self._session.folder is not None
        found = self._session.folder / request.folder / f"rank{rank}"
        make_private(found)
        return found


def ask_for_straggler(session: AsksForProfile, env: Mapping[str, str] = os.environ) -> None:
    """This rank keeps the others waiting. Where the user wants that profiled: this rank, and one to compare with."""
    if env.get(WANTED) == STRAGGLERS and session.folder is not None and session.who.rank is not None:
        ahead = math.ceil(NOTICE_S / (session.usual_step_s or NOTICE_S))
        other = 0 if session.who.rank else 1
        profile_request.ask(session.folder, {session.who.rank, other}, session.steps + max(2, ahead), STEPS)
        session.say("its next steps are profiled: `keepstep profile RUN --last` shows them")


def _start(framework: str | None, folder: Path) -> Stop:
    """Start the profiler of the framework that this rank trains with. It is imported already."""
    framework = framework or next((name for name in ("tensorflow", "torch", "jax") if name in sys.modules), None)
    module = sys.modules.get(framework or "")
    if framework == "torch" and module is not None:
        return _start_torch(module, folder)
    if framework == "jax" and module is not None:
        module.profiler.start_trace(str(folder))
        return lambda: module.profiler.stop_trace()
    if framework == "tensorflow" and module is not None:
        module.profiler.experimental.start(str(folder))
        return lambda: module.profiler.experimental.stop()
    raise RuntimeError(f"no profiler for {framework or 'this program'}")


def _start_torch(torch: Any, folder: Path) -> Stop:
    profiler = torch.profiler
    kinds = [profiler.ProfilerActivity.CPU]
    kinds += [profiler.ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    asked = inspect.signature(profiler.profile.__init__).parameters
    quiet = {"acc_events": True} if "acc_events" in asked else {}  # else torch warns into the training's log
    profile = profiler.profile(activities=kinds, **quiet)
    profile.start()

    def stop() -> Finish:
        profile.stop()
        return lambda: profile.export_chrome_trace(str(folder / "keepstep.pt.trace.json"))

    return stop
