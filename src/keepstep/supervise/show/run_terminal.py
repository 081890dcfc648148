# SPDX-License-Identifier: Apache-2.0
"""The terminal: what ranks print, the supervisor's own words, and a live part at the bottom.

What a rank writes to standard error goes to ours, the rest to standard output. A single process is shown byte by byte,
as if we were not there: its progress bars, its prompts. Of several, lines are shown after the rank's name, and
unfinished lines (progress bars) are in the live part. Files are read at the terminal's pace; what is too much is
counted and left in them. What no file could take is shown in full: it is nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from keepstep.base.redact import redact
from keepstep.base.visible import visible
from keepstep.base.wording import size
from keepstep.supervise.show.outlet import Outlet, same_file
from keepstep.supervise.show.progress_bar import LONGEST, keep_of, last_state
from keepstep.supervise.show.rank_output import Output, Stream

TICK_S = 0.1
PIECE = 64 << 10
LINES_A_SECOND = 400
BURST = 1200
TELL_SKIPPED_S = 2.0
STATUS_EVERY_S = 60.0
BAR_EVERY_S = 30.0
"""How often a moving progress bar is shown if there is no live part."""
MOST_BARS = 8
MOST_UNFINISHED = 1 << 20
"""Bytes of a line that waits for its end and that no file holds."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


@dataclass
class _Unfinished:
    """The line that one pipe of a rank has begun."""

    text: bytes = b""
    shown: str = ""
    at: float = field(default_factory=time.monotonic)
    """When it began, or its state was last shown."""
    whole: bool = False
    """No file holds it, so all of it is shown."""


@dataclass
class _Reading:
    """How far a stream has been shown."""

    stream: Stream
    handle: int | None
    """Of its file, if there is one."""
    shown: int = 0
    rests: tuple[_Unfinished, _Unfinished] = field(default_factory=lambda: (_Unfinished(), _Unfinished()))
    skipped: int = 0
    told: float = 0.0
    colour: int = 0
    over: bool = False
    """Nothing more comes."""


@dataclass
class _Allowance:
    """This many lines per second, and a few more in a burst."""

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
        self._to_out = Outlet()
        self._to_words = self._to_out if same_file(self._out, self._words) else Outlet()
        self.quiet = quiet
        self._live = self._is_terminal(self._words)
        self._coloured = self._is_terminal(self._out) and not os.environ.get("NO_COLOR")
        self._lock = threading.RLock()
        self._status = ""
        self._status_due = time.monotonic() + STATUS_EVERY_S
        self._readings: list[_Reading] = []
        self._allowance = _Allowance()
        self._over = threading.Event()
        self._arrived = threading.Event()
        """Of the attempt that is followed: ranks have printed something."""
        self._thread: threading.Thread | None = None
        self._alone = False
        """One process: shown as it is."""
        self._mid_line = False
        self._drawn = 0
        """Lines of the live part now on the screen."""

    # --- the supervisor's own words

    def say(self, text: str) -> None:
        with self._lock:
            self._show_all()  # what ranks printed before comes first
            self._clear()
            self._finish_line()
            self._put(
                self._words, "".join(f"keepstep: {line}\n" for line in visible(redact(text)).splitlines() or [""])
            )
            self._draw()

    def status(self, text: str) -> None:
        """The live line; if the output is not a terminal, a line every minute."""
        if not self._live and text and time.monotonic() >= self._status_due:
            self._status_due = time.monotonic() + STATUS_EVERY_S
            self.say(text.removeprefix("keepstep: "))
        if self._live and text != self._status:
            with self._lock:
                self._clear()
                self._status = text
                self._draw()

    def plainly(self, text: str) -> None:
        """A report, as it is. On standard error, like all our words: standard output is the job's."""
        with self._lock:
            self._show_all()
            self.status("")
            self._clear()
            self._finish_line()
            self._put(self._words, text)
            self._draw()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """The run and its status are worth more than a report that cannot be written."""
        try:
            yield
        except Exception as error:
            self.say(
                f"the report could not be written ({type(error).__name__}: {error}); "
                "this is a bug in keepstep; the run continues"
            )

    # --- what ranks print

    def follow(self, output: Output) -> None:
        """Show the streams of an attempt from now on."""
        self.follow_new(output)
        self._arrived, before = output.arrived, self._arrived
        before.set()
        if self._thread is None and not self.quiet:
            self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
            self._thread.start()

    def follow_new(self, output: Output) -> None:
        """Show the streams that were opened since as well: those of a restarted rank."""
        with self._lock:
            self._alone = len(output.streams) == 1
            known = {id(reading.stream) for reading in self._readings}
            for stream in output.streams:
                if id(stream) in known:
                    continue
                if self.quiet:
                    stream.unrecorded.most = 0
                handle = None
                with contextlib.suppress(OSError):
                    handle = os.open(stream.path, os.O_RDONLY | os.O_CLOEXEC)
                colour = COLOURS[(stream.rank or 0) % len(COLOURS)]
                self._readings.append(_Reading(stream, handle, shown=stream.began, colour=colour))

    def unfollow(self) -> None:
        """The attempt is over: show what is left of it, as soon as it is read."""
        with self._lock:
            for reading in self._readings:
                reading.over = True
            self._show_all()
            self._draw()

    def close(self) -> None:
        """Wait until what ended attempts printed is read, too."""
        self._over.set()
        self._arrived.set()
        while any(reading.over for reading in self._readings):
            self._to_out.wait_for_room()
            self._to_words.wait_for_room()
            with self._lock:
                self._show_all()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        self.status("")
        for outlet in (self._to_out, self._to_words):
            outlet.close()

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            arrived = self._arrived
            arrived.wait(TICK_S if self._is_moving() else None)
            arrived.clear()
            done = False
            while not done and not self._over.is_set():
                with self._lock:
                    done = self._show_all()
                if not done:
                    self._to_out.wait_for_room(TICK_S)
                    self._to_words.wait_for_room(TICK_S)
            with self._lock:
                self._draw()

    def _show_all(self) -> bool:
        """Show what ranks have printed, as far as it is read. Whether that was all."""
        for reading in tuple(self._readings):
            if not self._show(reading, last=reading.over):
                if not any(each.over for each in self._readings):  # the next one begins the next time
                    self._readings.remove(reading)
                    self._readings.append(reading)
                return False
            if reading.over:
                self._readings.remove(reading)
                if reading.handle is not None:
                    os.close(reading.handle)
        return True

    def _is_behind(self) -> bool:
        return self._to_out.is_full or self._to_words.is_full

    def _is_moving(self) -> bool:
        """Whether what is shown changes with time, although nobody prints anything."""
        with self._lock:
            return self._live or any(each.skipped or any(rest.text for rest in each.rests) for each in self._readings)

    def _show(self, reading: _Reading, *, last: bool = False) -> bool:
        """False where the reader has to catch up first."""
        if self.quiet:
            return True
        while not self._is_behind() and (piece := reading.stream.unrecorded.first()) is not None:
            self._show_file(reading, piece.place)
            if piece.lost:
                self._finish_line()
                why = "nobody read it in time, and it could not be recorded"
                self._line(reading, f"... {size(piece.lost)} lost here: {why}", dim=True)
            self._print(reading, piece.data, piece.is_err, whole=True)
        if self._is_behind() or not self._show_file(reading):
            return False
        for is_err, rest in enumerate(reading.rests):
            self._show_unfinished(reading, rest, bool(is_err), last=last)
        if reading.skipped and (last or time.monotonic() - reading.told > TELL_SKIPPED_S):
            reading.told = time.monotonic()
            self._finish_line()
            where = reading.stream.path
            self._line(reading, f"... {size(reading.skipped)} not shown here; all of it is in {where}", dim=True)
            reading.skipped = 0
        return True

    def _show_file(self, reading: _Reading, end: int | None = None) -> bool:
        """What the file holds, up to this place; without one, up to its end, or until the reader has to catch up."""
        if reading.handle is None:
            return True
        stream = reading.stream
        may_stop = end is None
        end = stream.began + stream.written if end is None else end  # not the last words, which it gets at the end
        with contextlib.suppress(OSError):
            ahead = end - reading.shown
            if ahead > 4 * PIECE and not (self._alone and not self._live):
                reading.skipped += ahead - PIECE
                reading.shown += ahead - PIECE
                for is_err, rest in enumerate(reading.rests):
                    if rest.whole:
                        self._show_unfinished(reading, rest, bool(is_err), last=True)
                    rest.text, rest.whole = b"", False
            while data := os.pread(reading.handle, max(0, min(PIECE, end - reading.shown)), reading.shown):
                turn, after = stream.turn_at(reading.shown)
                if after is not None:
                    data = data[: after.place - reading.shown]
                ends = after is not None and reading.shown + len(data) == after.place
                reading.shown += len(data)
                if ends and after is not None and after.added and self._alone:
                    data = data[:-1]
                self._print(reading, data, turn.is_err)
                if may_stop and self._is_behind():
                    return False
        return True

    def _print(self, reading: _Reading, data: bytes, is_err: bool, *, whole: bool = False) -> None:
        """``whole``: it is nowhere else, so nothing is left out."""
        if self._alone:
            self._pass_on(data, is_err)
            return
        rest = reading.rests[is_err]
        rest.whole = rest.whole or whole
        *lines, unfinished = (rest.text + data).split(b"\n")
        if rest.whole and len(unfinished) > MOST_UNFINISHED:
            lines, unfinished = [*lines, unfinished], b""
        for line in lines:
            state, before = last_state(line, len(line) if rest.whole else LONGEST), rest.shown
            rest.shown, rest.at = "", time.monotonic()
            if state and state == before:
                pass  # it is on the screen already; only its end has come
            elif rest.whole or self._allowance.take():
                self._line(reading, state, is_err=is_err)
            else:
                reading.skipped += len(line) + 1
            rest.whole = whole
        rest.text = unfinished if rest.whole else keep_of(unfinished)

    def _pass_on(self, data: bytes, is_err: bool) -> None:
        """Byte by byte, to where it was meant for."""
        if not data:
            return
        self._clear()
        self._mid_line = not data.endswith(b"\n")
        self._send(self._words if is_err else self._out, data)

    def _show_unfinished(self, reading: _Reading, rest: _Unfinished, is_err: bool, *, last: bool) -> None:
        """A line without its end: when the rank ends, and now and then if no live part shows it."""
        if not rest.text or self._alone or (self._live and not last):
            return
        if last or time.monotonic() - rest.at > BAR_EVERY_S:
            state = last_state(rest.text, len(rest.text) if rest.whole else LONGEST)
            if state != rest.shown:
                self._line(reading, state, is_err=is_err)
            rest.shown, rest.at = state, time.monotonic()
        if last:
            rest.text = b""

    def _line(self, reading: _Reading, text: str, *, is_err: bool = False, dim: bool = False) -> None:
        body = f"\x1b[2m{text}\x1b[0m" if dim and self._coloured else text
        self._clear()
        self._put(self._words if is_err else self._out, f"{self._name(reading)} {body}\n")

    def _name(self, reading: _Reading) -> str:
        stream = reading.stream
        name = f"rank {stream.rank}" if stream.rank is not None else stream.name
        return f"\x1b[{reading.colour}m{name} |\x1b[0m" if self._coloured else f"{name} |"

    # --- drawing

    def _clear(self) -> None:
        if self._drawn:
            self._put(self._words, "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (self._drawn - 1))
            self._drawn = 0

    def _finish_line(self) -> None:
        """Our words begin a line of their own."""
        if self._mid_line:
            self._mid_line = False
            self._put(self._words, "\n")

    def _draw(self) -> None:
        """The bars of the ranks, and the status, where no unfinished line of a single process is in the way."""
        if not self._live or self._mid_line or self._is_behind():
            return
        bars = [
            (each, last_state(rest.text))
            for each in self._readings
            for rest in each.rests
            if rest.text and not self._alone
        ]
        width = shutil.get_terminal_size().columns - 1
        lines = [_cut(f"rank {each.stream.rank} | {state}", width) for each, state in bars[:MOST_BARS]]
        lines += [self._status[:width]] if self._status else []
        if lines == self._last and self._drawn:
            return
        self._clear()
        if lines:
            self._put(self._words, "\n".join(lines))
        self._drawn, self._last = len(lines), lines

    _last: list[str] | None = None

    def _put(self, where: TextIO, text: str) -> None:
        try:
            data = text.encode(where.encoding or "utf-8", where.errors or "strict")
        except UnicodeEncodeError:
            data = text.encode("ascii", "replace")
        self._send(where, data)

    def _send(self, where: TextIO, data: bytes) -> None:
        (self._to_words if where is self._words else self._to_out).put(where, data)

    @staticmethod
    def _is_terminal(stream: TextIO) -> bool:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return stream.isatty() and os.environ.get("TERM", "") != "dumb"
        return False


def _cut(text: str, width: int) -> str:
    """As much as fits into one line of the terminal, without colours."""
    return COLOUR.sub("", text)[:width]
