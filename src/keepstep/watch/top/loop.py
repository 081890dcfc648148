# SPDX-License-Identifier: Apache-2.0
"""Draw a run's screen again and again, until ``q``. Plain escape sequences: they work over ssh and in tmux."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator

from keepstep.watch.look import RunLook
from keepstep.watch.top.screen import STRIP, Look, screen

_OPEN, _CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_LINE_END, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def lines(run: RunLook, look: Look) -> list[str]:
    """The screen as of now."""
    view, past = run.see(), run.past()
    start, end = past.span
    steps = past.series("step_s", start, end, 16).get("all ranks", [])
    return screen(view, past.grid(start, end, STRIP), steps, look)


def once(run: RunLook) -> None:
    """Print one screen."""
    size = shutil.get_terminal_size((80, 24))
    look = Look(size.columns, size.lines - 1, _colour(), _is_plain(), live=False)
    print("\n".join(lines(run, look)))


def follow(run: RunLook) -> None:
    """Draw until the user quits."""
    with _raw_keys(), _own_screen():
        while True:
            size = shutil.get_terminal_size()
            drawn = lines(run, Look(size.columns, size.lines, _colour(), _is_plain()))
            sys.stdout.write(_HOME + f"{_TO_LINE_END}\r\n".join(drawn) + _TO_LINE_END + _BELOW)
            sys.stdout.flush()
            if _quits(run.rest_s):
                return


def _quits(wait_s: float) -> bool:
    """Wait for a key. Any other one draws at once."""
    try:
        ready, _, _ = select.select([sys.stdin], [], [], wait_s)
        return bool(ready) and os.read(sys.stdin.fileno(), 64)[:1] in (b"q", b"Q", b"\x03", b"\x04", b"")
    except KeyboardInterrupt:
        return True


@contextlib.contextmanager
def _raw_keys() -> Iterator[None]:
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    """The user's own screen comes back, however this ends."""
    sys.stdout.write(_OPEN)
    try:
        yield
    finally:
        sys.stdout.write(_CLOSE)
        sys.stdout.flush()


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_plain() -> bool:
    return "utf" not in (sys.stdout.encoding or "").lower()
