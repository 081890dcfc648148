# SPDX-License-Identifier: Apache-2.0
"""A SystemExit that nothing caught: seen where Python asks it for its status, before any exit handler runs.

``raise SystemExit("bad arguments")`` and ``exit(3)`` call no function that could be watched, and leave nothing behind.
An exit handler that waits for other ranks (JAX's shutdown barrier) would keep the real status from being known. But the
interpreter reads the exception's ``code`` first, and it alone does so without a frame of Python around it. ``code``
stays what it was for everybody else: it is read, set and deleted as before. ``sys.exit`` still does what it did; before
Python 3.12 it makes no exception until somebody catches it, so it is caught once and raised again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn

from keepstep.guard.record.user_line import is_library, name_of_line

Then = Callable[[Any, str | None, bool], None]
_then: list[Then] = []


def hear(then: Then) -> None:
    """Call ``then`` with what such an exception was given, the user's line that raised it, and whether it answers
    Ctrl-C."""
    _then.append(then)
    if isinstance(SystemExit.__dict__["code"], _Code) or not _is_known_python():
        return
    attributes = gc.get_referents(SystemExit.__dict__)[0]
    if isinstance(attributes, dict):
        attributes["code"] = _Code(SystemExit.__dict__["code"])
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))
        sys.exit = _made_at_once(sys.exit)


def _is_known_python() -> bool:
    """A type of the interpreter is changed: only where how it is kept is known."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and sys.version_info < (3, 14) and has_lock


def _made_at_once(real: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    @functools.wraps(real)
    def exit(status: Any = None, /) -> NoReturn:
        try:
            real(status)
        except SystemExit:
            raise

    return exit


class _Code:
    """The attribute of SystemExit, which also tells when the interpreter itself reads it."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __get__(self, error: SystemExit | None, owner: type | None = None) -> Any:
        if error is None:
            return self._real
        given = self._real.__get__(error, owner)
        if _is_outermost() and threading.current_thread() is threading.main_thread():
            with contextlib.suppress(Exception):
                place = _place(error.__traceback__) or _place(_newest_traceback())
                for then in _then:
                    then(given, place, isinstance(error.__context__, KeyboardInterrupt))
        return given

    def __set__(self, error: SystemExit, value: Any) -> None:
        self._real.__set__(error, value)

    def __delete__(self, error: SystemExit) -> None:
        self._real.__delete__(error)


def _is_outermost() -> bool:
    try:
        sys._getframe(2)
    except ValueError:
        return True
    return False


def _newest_traceback() -> TracebackType | None:
    """Before Python 3.12 only the interpreter has all of it. The outermost entry is the last that was made."""
    for generation in range(3):
        for each in reversed(gc.get_objects(generation=generation)):
            if type(each) is TracebackType and _is_of_program(each.tb_frame):
                return each
    return None


def _is_of_program(frame: FrameType) -> bool:
    """Whether it is where the main program starts, and not a thread or the guard."""
    return frame.f_back is None and frame.f_code.co_name in ("<module>", "_run_module_as_main")


def _place(trace: TracebackType | None) -> str | None:
    """The innermost line of the user's own code."""
    found = None
    while trace is not None:
        if not is_library(file := trace.tb_frame.f_code.co_filename):
            found = name_of_line(file, trace.tb_lineno)
        trace = trace.tb_next
    return found
