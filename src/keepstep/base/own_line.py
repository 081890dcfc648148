# SPDX-License-Identifier: Apache-2.0
"""A line of ours on a standard error that is not ours alone: it never lands inside a progress bar or half a line."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import TextIO


def say_on_own_line(text: str, *, others_draw: bool = False) -> None:
    """``others_draw``: another process writes there too, and may have begun a line that we know nothing about."""
    stream = sys.stderr
    stream.flush()
    stream.write(f"{_line_break(stream, others_draw)}{text}\n")
    stream.flush()


def _line_break(stream: TextIO, others_draw: bool) -> str:
    """What ends an unfinished line, if there may be one. What stands on it stays."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        handle = stream.fileno()
        info = os.fstat(handle)
        if stat.S_ISREG(info.st_mode):
            return "" if _ends_in_line_break(handle, info.st_size) else "\n"
        if os.isatty(handle):
            # a line full of blanks: from its beginning it fits exactly, from anywhere else it ends on the next one
            columns = os.get_terminal_size(handle).columns
            return " " * columns + "\r" if columns and os.environ.get("TERM", "") not in ("", "dumb") else ""
        return "\n" if others_draw or _bar_is_drawn() else ""
    return ""


def _ends_in_line_break(handle: int, size: int) -> bool:
    with contextlib.suppress(OSError):
        again = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(again, 1, size - 1) == b"\n" if size else True
        finally:
            os.close(again)
    return True


def _bar_is_drawn() -> bool:
    """Whether a bar of tqdm is on its unfinished line."""
    bars = getattr(getattr(sys.modules.get("tqdm.std"), "tqdm", None), "_instances", ())
    return len(bars) > 0
