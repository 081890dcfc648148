# SPDX-License-Identifier: Apache-2.0
"""The terminal: ranks' output with their names before it, the supervisor's own words, and one live line at the bottom.

Files are read at the terminal's pace; what is too much is counted and left in the files.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TextIO

from keepstep.core.redact import redact
from keepstep.core.wording import size
from keepstep.supervise.output import Output, Stream

TICK_S = 0.1
PIECE = 64 << 10
LINES_A_SECOND = 400
BURST = 1200
LONGEST_LINE = 2000
TELL_SKIPPED_S = 2.0
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhln]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]")


@dataclass
class _Reading:
    """How far a stream has been shown."""

    stream: Stream
    handle: int
    shown: int = 0
    rest: bytes = b""
    skipped: int = 0
    told: float = 0.0
    colour: int = 0


@dataclass
class _Allowance:
    """So many lines a second, some more at once."""

    left: float = BURST
    at: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        now = time.monotonic()
        self.left = min(BURST, self.left + (now - self.at) * LINES_A_SECOND)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Terminal:
    """Safe from any thread. ``quiet``: only the supervisor's own words."""

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None, words: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._words = words or sys.stderr
        self.quiet = quiet
        self._live = self._is_terminal(self._words)
        self._coloured = self._is_terminal(self._out) and not os.environ.get("NO_COLOR")
        self._lock = threading.RLock()
        self._status = ""
        self._readings: list[_Reading] = []
        self._allowance = _Allowance()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    # --- the supervisor's own words

    def say(self, text: str) -> None:
        with self._lock:
            self._clear()
            self._put(self._words, "".join(f"keepstep: {line}\n" for line in redact(text).splitlines() or [""]))
            self._draw()

    def status(self, text: str) -> None:
        """The live line; nothing where the output is no terminal."""
        if self._live and text != self._status:
            with self._lock:
                self._clear()
                self._status = text
                self._draw()

    def plainly(self, text: str) -> None:
        """A report, as it is, on standard output."""
        with self._lock:
            self.status("")
            self._put(self._out, text)

    # --- what ranks print

    def follow(self, output: Output) -> None:
        """Show the streams of an attempt from now on."""
        self.follow_new(output)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
            self._thread.start()

    def follow_new(self, output: Output) -> None:
        """Show also the streams that were opened since: of a rank that was started again."""
        with self._lock:
            known = {id(reading.stream) for reading in self._readings}
            for stream in output.streams:
                if id(stream) in known:
                    continue
                with contextlib.suppress(OSError):
                    handle = os.open(stream.path, os.O_RDONLY | os.O_CLOEXEC)
                    colour = COLOURS[(stream.rank or 0) % len(COLOURS)]
                    self._readings.append(_Reading(stream, handle, colour=colour))

    def unfollow(self) -> None:
        """The attempt is over: show what is left of it."""
        with self._lock:
            for reading in self._readings:
                self._show(reading, last=True)
                with contextlib.suppress(OSError):
                    os.close(reading.handle)
            self._readings.clear()
            self._flush()

    def close(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        self.status("")

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            with self._lock:
                for reading in self._readings:
                    self._show(reading)
                self._flush()

    def _show(self, reading: _Reading, *, last: bool = False) -> None:
        if self.quiet:
            return
        with contextlib.suppress(OSError):
            ahead = os.fstat(reading.handle).st_size - reading.shown
            if ahead > 4 * PIECE:
                reading.skipped += ahead - PIECE
                reading.shown += ahead - PIECE
                reading.rest = b""
            while data := os.pread(reading.handle, PIECE, reading.shown):
                reading.shown += len(data)
                self._print(reading, data)
        if reading.stream.tail:
            data, reading.stream.tail = bytes(reading.stream.tail), bytearray()
            self._print(reading, data)
        if last and reading.rest:
            self._print(reading, b"\n")
        if reading.skipped and (last or time.monotonic() - reading.told > TELL_SKIPPED_S):
            reading.told = time.monotonic()
            where = reading.stream.path
            self._line(reading, f"... {size(reading.skipped)} not shown here; all of it is in {where}", dim=True)
            reading.skipped = 0

    def _print(self, reading: _Reading, data: bytes) -> None:
        lines = (reading.rest + data).split(b"\n")
        reading.rest = lines.pop()[-LONGEST_LINE:]
        for line in lines:
            if self._allowance.take():
                self._line(reading, _shown(line))
            else:
                reading.skipped += len(line) + 1

    def _line(self, reading: _Reading, text: str, *, dim: bool = False) -> None:
        stream = reading.stream
        name = f"rank {stream.rank}" if stream.rank is not None else stream.name
        if self._coloured:
            body = f"\x1b[2m{text}\x1b[0m" if dim else text
            line = f"\x1b[{reading.colour}m{name} |\x1b[0m {body}\n"
        else:
            line = f"{name} | {text}\n"
        self._clear()
        self._put(self._out, line, flush=False)

    # --- drawing

    def _flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._out.flush()
        self._draw()

    _drawn = False

    def _clear(self) -> None:
        if self._drawn:
            self._put(self._words, "\r\x1b[2K")
            self._drawn = False

    def _draw(self) -> None:
        if self._live and self._status and not self._drawn:
            with contextlib.suppress(OSError, ValueError):
                self._out.flush()
            width = shutil.get_terminal_size().columns - 1
            self._put(self._words, self._status[:width])
            self._drawn = True

    def _put(self, where: TextIO, text: str, *, flush: bool = True) -> None:
        try:
            where.write(text)
            if flush:
                where.flush()
        except UnicodeEncodeError:
            with contextlib.suppress(OSError, ValueError):
                where.write(text.encode("ascii", "replace").decode())
        except (OSError, ValueError):
            pass  # the terminal is gone: the run is not

    @staticmethod
    def _is_terminal(stream: TextIO) -> bool:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return stream.isatty() and os.environ.get("TERM", "") != "dumb"
        return False


def _shown(line: bytes) -> str:
    """A line as it may be printed: the last state of a progress bar, no movement of the cursor."""
    text = line[:LONGEST_LINE].rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
    return _CONTROL.sub("", text)
