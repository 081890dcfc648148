# SPDX-License-Identifier: Apache-2.0
"""An exception that ends this rank, written down the moment it is known: the process may still block on its way out.

An exit barrier, a `finally` or a `with` that waits for other ranks can keep a failed rank alive for ever. The rank's
own traceback is printed first, as always, without frames of ours (:mod:`own_frames`).

| how an exception ends a rank | how it is seen |
|---|---|
| it is not caught | `sys.excepthook`; if the script has replaced that since, `sys.last_value` |
| in a child of multiprocessing or of torch's `mp.spawn` | a finalizer of multiprocessing, run while it propagates |
| in a Ray Train worker | the function by which Ray passes it to the driver (:mod:`ray_words`) |
| a `finally`, `with` or re-raising `except` blocks | the guard's thread sees it and its frames (:mod:`leaving`) |
| in a thread beside the training | `threading.excepthook`: a fact, not an end |
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keepstep.base.other_threads import exception_of, frame_of
from keepstep.base.safe_files import append
from keepstep.guard.ending import ray_train_end
from keepstep.guard.ending.will_exit import WillExit, is_leaving
from keepstep.guard.record.named_pauses import FRAMEWORK_FILE
from keepstep.guard.record.thread_stack import DEEPEST, calls
from keepstep.guard.record.user_line import is_library
from keepstep.signals.memory_errors import is_out_of_memory

if TYPE_CHECKING:
    from keepstep.guard.protocols import Speaks

PATIENCE_S = 0.5
"""A `finally` that takes no longer than this is not reported."""
AGAIN_S = 1.0
LONGEST_TEXT = 32 << 10
LONGEST_MESSAGE = 300
SUFFIX = ".last.log"
FIRST = 1000
"""Among multiprocessing's finalizers."""


class LastWords:
    """``listen`` once; the guard's thread then calls this now and then."""

    period_s = 0.2
    part = "last words"

    def __init__(self, session: Speaks) -> None:
        self._session = session
        self._told: set[int] = set()
        self._seen = (0, 0)
        """The exception that the training's thread was last seen with, and its steps..."""
        self._judge_at = 0.0
        """... and when to look at its frames."""
        self._last_before = id(_last_of_interpreter())

    def listen(self) -> None:
        self._chain(sys, "excepthook", self._uncaught)
        self._chain(threading, "excepthook", self._in_a_thread)
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:
            from multiprocessing.util import Finalize

            Finalize(None, self._leaving_child, exitpriority=FIRST)
        ray_train_end.listen(lambda error: self.tell(error, "uncaught"), self._ray_trains)

    def _ray_trains(self, now: bool) -> None:
        self._session.who.is_in_training = now
        self._session.tell_who()

    def __call__(self) -> None:
        """From the guard's thread."""
        if self._is_interactive():
            return
        error = _last_of_interpreter()
        if error is not None and id(error) != self._last_before and _main_program_is_over():
            self.tell(error, "uncaught")
        self._look_at_training()

    def _chain(self, owner: Any, name: str, ours: Any) -> None:
        theirs = getattr(owner, name)

        def hook(*args: Any) -> None:
            try:
                theirs(*args)
            finally:
                with contextlib.suppress(Exception):
                    ours(*args)

        setattr(owner, name, hook)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not self._is_interactive():
            self.tell(error, "uncaught")

    def _in_a_thread(self, args: Any) -> None:
        if args.exc_value is None or args.exc_type is SystemExit:
            return
        trains = args.thread is not None and args.thread.ident == self._session.trains_in_thread
        self.tell(args.exc_value, "uncaught" if trains else f"in the thread {args.thread.name if args.thread else '?'}")

    def _leaving_child(self) -> None:
        with contextlib.suppress(Exception):
            error = sys.exc_info()[1]
            if isinstance(error, SystemExit):  # torch's mp.spawn catches, writes a file, and exits
                error = error.__context__ if error.code not in (None, 0) else None
            if error is not None:
                self.tell(error, "uncaught")

    def _look_at_training(self) -> None:
        """An exception has been propagating for a while in the thread that trains: will anything catch it?"""
        thread = self._session.trains_in_thread or threading.main_thread().ident or 0
        error = exception_of(thread)
        now, steps = time.monotonic(), self._session.steps
        if error is None or self._seen != (id(error), steps):
            self._seen, self._judge_at = (id(error) if error is not None else 0, steps), now + PATIENCE_S
            return
        if now < self._judge_at or id(error) in self._told:
            return
        self._judge_at = now + AGAIN_S
        frame = frame_of(thread)
        if frame is not None and is_leaving(frame, error) is WillExit.YES and error is exception_of(thread):
            self.tell(error, "leaving")  # it was its frame, then
        del frame

    def tell(self, error: BaseException, how: str) -> None:
        """Write it down at once, where it will be looked for. ``how``: "uncaught", "leaving", or in which thread."""
        if id(error) in self._told or isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            return
        self._told.add(id(error))
        session = self._session
        kind, message = _name(type(error)), _message(error)
        file, line, function, innermost = _place(error)
        fields = {"type": kind, "message": message, "file": file, "line": line, "function": function, "how": how}
        fields["in_framework"] = FRAMEWORK_FILE.search(innermost or "") is not None
        if is_out_of_memory(kind, message) and (batch := session.batches.last):
            fields["batch"] = batch
        where = f" in {os.path.basename(file)}:{line}" if file else ""
        session.note("RankRaised", fields, f"raised {kind}{where}: {message}")
        session.flush()
        if os.environ.get("KEEPSTEP_TRIAL"):
            from keepstep.guard.record.trial_record import keep_values

            keep_values(error, session.who.rank)
        if how in ("uncaught", "leaving"):
            self._keep(_text(error))

    def _keep(self, text: str) -> None:
        """The traceback as a log of its own: the guard does not know where the rank's output goes."""
        notes = self._session.notes_path
        if notes is not None:
            from keepstep.base.redact import redact

            path = notes.with_name(notes.name.removesuffix(".notes.jsonl") + SUFFIX)
            with contextlib.suppress(OSError):
                append(path, redact(text).encode(errors="replace"))

    @staticmethod
    def _is_interactive() -> bool:
        """In a notebook or a shell an exception ends nothing."""
        return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules


def _last_of_interpreter() -> BaseException | None:
    """What the interpreter was last about to print as uncaught."""
    found = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return found if isinstance(found, BaseException) else None


def _main_program_is_over() -> bool:
    """Whether the main thread has left the script: it waits for threads, or runs exit handlers."""
    script = os.path.basename(getattr(sys.modules.get("__main__"), "__file__", None) or "<string>")
    stack = calls(threading.main_thread().ident or 0)
    return len(stack) < DEEPEST and not any(
        function == "<module>" and os.path.basename(file) == script for file, _, function in stack
    )


def _name(kind: type[BaseException]) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_MESSAGE]
    except Exception:
        return ""


def _place(error: BaseException) -> tuple[str | None, int | None, str | None, str | None]:
    """The innermost line of the user's own code, else the innermost of all; and the file of the innermost of all."""
    found = innermost = None
    trace = error.__traceback__
    while trace is not None:
        innermost = trace
        file = trace.tb_frame.f_code.co_filename
        if not is_library(file):
            found = trace
        trace = trace.tb_next
    at = found or innermost
    if at is None or innermost is None:
        return None, None, None, None
    return (
        at.tb_frame.f_code.co_filename,
        at.tb_lineno,
        at.tb_frame.f_code.co_name,
        innermost.tb_frame.f_code.co_filename,
    )


def _text(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-LONGEST_TEXT:]
