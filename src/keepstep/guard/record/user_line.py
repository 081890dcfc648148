# SPDX-License-Identifier: Apache-2.0
"""The line of the user's own program that a thread is at: the innermost one outside libraries and the guard."""

from __future__ import annotations

import os
import sys
from types import FrameType

from keepstep.guard.record.thread_stack import calls

OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
STANDARD = os.path.dirname(os.__file__) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
DEEPEST = 200


def is_library(path: str) -> bool:
    """Whether a source file is not the user's."""
    return path.startswith(("<", OWN, STANDARD)) or any(each in path for each in INSTALLED)


def name_of_line(file: str, line: int) -> str:
    return f"{os.path.basename(file)}:{line}"


def user_line(frame: FrameType | None) -> str | None:
    """``train.py:64``, or None where no frame is the user's. Reads names and numbers, holds nothing."""
    for _ in range(DEEPEST):
        if frame is None:
            break
        path = frame.f_code.co_filename
        if not is_library(path):
            return name_of_line(path, frame.f_lineno)
        frame = frame.f_back
    return None


def line_of_caller() -> str | None:
    """Where the program that called into a library, and so into the guard, is."""
    return user_line(sys._getframe(1))


def line_of_thread(thread: int) -> str | None:
    """Where another thread (by its number in Python) is right now."""
    return next((name_of_line(file, line) for file, line, _ in calls(thread) if not is_library(file)), None)
