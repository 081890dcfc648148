# SPDX-License-Identifier: Apache-2.0
"""A traceback that is about to be printed, without the frames of the guard's hooks: they say nothing to its reader.

TensorFlow, Keras and JAX filter tracebacks themselves: :mod:`keepstep.guard.adapters.tracebacks` adds ours.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from types import TracebackType

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
MOST_ERRORS = 100


def leave_out() -> None:
    """From now on, whoever prints an uncaught exception of this process gets it without them."""
    of_program, of_threads = sys.excepthook, threading.excepthook

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with contextlib.suppress(Exception):
            without_own_frames(error)
            trace = error.__traceback__
        of_program(kind, error, trace)

    def in_a_thread(args: threading.ExceptHookArgs) -> None:
        with contextlib.suppress(Exception):
            if args.exc_value is not None:
                without_own_frames(args.exc_value)
                trace = args.exc_value.__traceback__
                args = threading.ExceptHookArgs((args.exc_type, args.exc_value, trace, args.thread))
        of_threads(args)

    sys.excepthook, threading.excepthook = uncaught, in_a_thread


def without_own_frames(error: BaseException) -> None:
    """Take them out of this exception, its causes and its group. What the guard itself raised keeps the place."""
    ahead, known = [error], {id(error)}
    while ahead and len(known) <= MOST_ERRORS:
        each = ahead.pop()
        each.__traceback__ = _filtered(each.__traceback__)
        for other in (each.__cause__, each.__context__, *getattr(each, "exceptions", ())):
            if isinstance(other, BaseException) and id(other) not in known:
                known.add(id(other))
                ahead.append(other)


def _filtered(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    own: list[TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(OWN):
            own.append(trace)
        else:
            kept, own = [*kept, trace], []
        trace = trace.tb_next
    kept += own  # the last ones: it was raised there
    for before, after in itertools.pairwise(kept):
        before.tb_next = after
    return kept[0] if kept else None
