# SPDX-License-Identifier: Apache-2.0
"""What another thread is doing, without the risk of a deadlock of the whole process.

Up to Python 3.11.8 `sys._current_frames` may collect garbage while it holds the interpreter's list of threads. What is
collected can need that list (a `threading.local`), or wait for a thread that does: neither ever ends (cpython#106883).
So nothing is collected meanwhile. From 3.12 on the interpreter collects later by itself.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def frame_of(thread: int) -> FrameType | None:
    """Where the thread with this ident is; None: there is none."""
    return _looked_at(sys._current_frames).get(thread)


def exception_of(thread: int) -> BaseException | None:
    """What is being raised or handled in it."""
    active: Any = _looked_at(sys._current_exceptions).get(thread)
    error: BaseException | None = active[1] if isinstance(active, tuple) else active
    return error


def _looked_at(look: Callable[[], dict[int, Any]]) -> dict[int, Any]:
    if sys.version_info >= (3, 12) or not gc.isenabled():
        return look()
    gc.disable()
    try:
        return look()
    finally:
        gc.enable()
