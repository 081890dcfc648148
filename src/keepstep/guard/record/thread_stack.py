# SPDX-License-Identifier: Apache-2.0
"""Where another thread is, according to Python's own crash reporter.

Walking another thread's frame objects is not safe: that thread keeps running between two of our steps, and what a
frame's ``f_back`` points to may be gone by then. A training crashed from it. ``faulthandler`` reads a whole stack at
once, in C, while the interpreter's lock stops all threads, and creates no objects.
"""

from __future__ import annotations

import faulthandler
import os
import re
import threading
from typing import NamedTuple

MOST_BYTES = 1 << 20
DEEPEST = 100
"""In a stack with more calls, the outermost are left out."""
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)", re.MULTILINE)
_CALL = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class Call(NamedTuple):
    """One call of a stack."""

    file: str
    line: int
    function: str


class _Paper:
    """What the reporter writes to: a file without a name, one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: int | None = None

    def dump(self) -> str:
        with self._lock:
            if self._handle is None:
                self._handle = _nameless()
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.ftruncate(self._handle, 0)
            faulthandler.dump_traceback(self._handle, all_threads=True)
            return os.pread(self._handle, MOST_BYTES, 0).decode("ascii", "replace")


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("keepstep-stacks", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_paper = _Paper()


def _in_child() -> None:
    """A forked child would share the file's position, and may find the lock held by a thread that it does not have."""
    global _paper
    _paper = _Paper()


os.register_at_fork(after_in_child=_in_child)


def calls(thread: int) -> list[Call]:
    """The calls that a thread (by its number in Python) is in, innermost first."""
    text = _paper.dump()
    heads = list(_THREAD.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        if int(head[1], 16) == thread:
            part = text[head.end() : following.start() if following is not None else len(text)]
            return [Call(_plain(file), int(line), _plain(name)) for file, line, name in _CALL.findall(part)]
    return []


def _plain(text: str) -> str:
    """The reporter escapes letters that are not ASCII."""
    return text.encode("ascii", "replace").decode("unicode_escape", "replace") if "\\" in text else text
