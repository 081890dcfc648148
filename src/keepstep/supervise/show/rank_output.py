# SPDX-License-Identifier: Apache-2.0
"""What ranks print, on its way to their files. Ranks never wait for a disk or a terminal.

Each rank writes into two pipes, its standard output and its standard error. One thread moves what arrives into the
rank's file inside the kernel (splice), which costs next to nothing however much ranks print. Which part of the file
came from which pipe is remembered for the terminal, which reads the files at its own pace (see terminal.py). A full
disk costs the recording, not the training: what cannot be written goes to the terminal through memory, which is bounded
(see unrecorded.py), and its end is kept for the file.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import select
import termios
import threading
import time
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from keepstep.base.safe_files import append, open_private, write_whole
from keepstep.sources.recorded.line_arrivals import NAME, SCHEMA
from keepstep.store.reserved_space import Reserve
from keepstep.supervise.show.unrecorded import LEAST_BYTES, MOST_BYTES, Unrecorded

PIPE_BYTES = 1 << 20
LAST_BYTES = 8 << 10
TRY_AGAIN_S = 5.0
MOST_OF_A_GUARD = 4 << 10
MOST_TURNS = 10_000
MARK_S, MOST_MARKS = 0.05, 1000
"""How many arrival times are kept of each rank's output, and how precisely."""
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", 1031)


@dataclass
class Pipe:
    """One of a rank's two outputs."""

    end: int
    is_err: bool
    open: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """From this place in the file on, one pipe wrote or the other."""

    place: int
    is_err: bool
    added: bool = False
    """The line break before it is ours."""


@dataclass
class Stream:
    """The output of one rank."""

    name: str
    rank: int | None
    path: Path
    pipes: tuple[Pipe, Pipe]
    file: int | None
    began: int = 0
    """What the file held before."""
    printed: int = 0
    """Bytes that the rank has printed so far; what its guard says is no sign of life."""
    written: int = 0
    dropped: int = 0
    """Bytes that could not be written."""
    last_dropped: bytearray = field(default_factory=bytearray)
    """The end of those, of both pipes."""
    unrecorded: Unrecorded = field(default_factory=Unrecorded)
    """Those that the terminal has not shown yet."""
    full_at: float = 0.0
    splices: bool = True
    turns: list[Turn] = field(default_factory=lambda: [Turn(0, False)])
    """The latest places in the file where the writer changed from one pipe to the other."""
    marks: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MOST_MARKS))
    """How much had been written when, recently."""
    first_mark: float = 0.0

    @property
    def open(self) -> bool:
        return any(pipe.open for pipe in self.pipes)

    def turn_at(self, place: int) -> tuple[Turn, Turn | None]:
        """Which pipe wrote this byte of the file, and where the next turn begins."""
        turns = self.turns
        number = max(0, bisect_right(turns, place, key=lambda turn: turn.place) - 1)
        return turns[number], turns[number + 1] if number + 1 < len(turns) else None

    def mark(self, at: float) -> None:
        """Something has arrived; what comes at almost the same time counts as one."""
        if self.marks and at - self.marks[-1][1] < MARK_S:
            at = self.marks.pop()[1]
        self.first_mark = self.first_mark or at
        self.marks.append((self.began + self.written, at))


class Output:
    """All streams of an attempt, and the thread that empties them."""

    def __init__(self, reserve: Reserve | None = None) -> None:
        self.streams: list[Stream] = []
        self.arrived = threading.Event()
        """Something was printed since this was cleared."""
        self._reserve = reserve or Reserve()
        self._poll = select.epoll()
        self._by_end: dict[int, tuple[Stream, Pipe]] = {}
        self._over = False
        self._lock = threading.Lock()
        self._wake_out, self._wake_in = os.pipe()
        self._poll.register(self._wake_out, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def open(self, name: str, rank: int | None, path: Path) -> tuple[int, int]:
        """Descriptors of standard output and error for a rank; the caller closes them when the rank has them."""
        ends, outs = zip(os.pipe(), os.pipe(), strict=True)
        for end in ends:
            with contextlib.suppress(OSError):
                fcntl.fcntl(end, F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(end, False)
        file, began = None, 0
        with contextlib.suppress(OSError):
            file = open_private(path, os.O_RDWR)
            began = os.lseek(file, 0, os.SEEK_END)
        pipes = (Pipe(ends[0], False), Pipe(ends[1], True))
        stream = Stream(name, rank, path, pipes, file, began, splices=hasattr(os, "splice"))
        with self._lock:
            self.streams.append(stream)
            for each in self.streams:
                each.unrecorded.most = max(LEAST_BYTES, MOST_BYTES // len(self.streams))
            for pipe in pipes:
                self._by_end[pipe.end] = stream, pipe
                self._poll.register(pipe.end, select.EPOLLIN)
        return outs[0], outs[1]

    @property
    def is_full(self) -> bool:
        return any(stream.dropped for stream in self.streams)

    def drain_of(self, name: str, limit_s: float) -> None:
        """Wait until what one rank printed is in its file."""
        end = time.monotonic() + limit_s
        while any(stream.open for stream in self.streams if stream.name == name) and time.monotonic() < end:
            time.sleep(0.005)

    def drain(self, limit_s: float) -> None:
        """Wait until every pipe is closed by its writers and empty, but no longer than this."""
        end = time.monotonic() + limit_s
        while any(stream.open for stream in self.streams) and time.monotonic() < end:
            time.sleep(0.005)

    def close(self) -> None:
        """Take what is left in the pipes, and end."""
        self._over = True
        os.write(self._wake_in, b"x")
        self._thread.join(timeout=5.0)
        for stream in self.streams:
            for pipe in stream.pipes:
                if pipe.open:
                    self._end(stream, pipe)
        self._keep_last_words()
        self._keep_marks()
        with contextlib.suppress(OSError):
            self._poll.close()
            os.close(self._wake_in)
            os.close(self._wake_out)

    def _keep_last_words(self) -> None:
        """The end of what a rank printed after its disk was full: errors are there."""
        for stream in self.streams:
            if stream.dropped and stream.file is not None:
                missing = stream.dropped - len(stream.last_dropped)
                words = b"\n[keepstep: %d bytes are missing here]\n%s" % (missing, stream.last_dropped)
                with contextlib.suppress(OSError):
                    self._reserve.used_for(partial(append, stream.path, words))

    def _keep_marks(self) -> None:
        """For `keepstep why`: programs seldom print the time."""
        for folder in {stream.path.parent for stream in self.streams}:
            here = [stream for stream in self.streams if stream.path.parent == folder and stream.marks]
            logs = {
                each.path.name: {"whole": each.marks[0][1] == each.first_mark, "marks": list(each.marks)}
                for each in here
            }
            with contextlib.suppress(OSError):
                write_whole(folder / NAME, json.dumps({"schema": SCHEMA, "logs": logs}).encode())

    def _run(self) -> None:
        while True:
            ready = [found for descriptor, _ in self._poll.poll() if (found := self._by_end.get(descriptor))]
            for stream, pipe in sorted(ready, key=_goes_on_first):
                if not self._take(stream, pipe):
                    self._end(stream, pipe)
            if self._over:
                for stream in self.streams:
                    for pipe in stream.pipes:
                        while pipe.open and self._take(stream, pipe, once=True):
                            pass
                return

    def _take(self, stream: Stream, pipe: Pipe, *, once: bool = False) -> bool:
        """Move what is there. False at the end of the pipe (or, with ``once``, when it is empty)."""
        try:
            moved = self._move(stream, pipe)
        except BlockingIOError:
            return not once
        except OSError:
            return False
        if moved:
            stream.mark(time.time())
            self.arrived.set()
            if not (pipe.is_err and _is_the_guards(stream, moved)):
                stream.printed += moved
        return moved > 0

    def _move(self, stream: Stream, pipe: Pipe) -> int:
        if stream.file is None or (stream.full_at and time.monotonic() - stream.full_at < TRY_AGAIN_S):
            return self._drop(stream, pipe, os.read(pipe.end, PIPE_BYTES))
        if stream.turns[-1].is_err is not pipe.is_err and _holds(pipe.end):
            self._turn(stream, pipe)
        if stream.splices:
            try:
                moved = os.splice(pipe.end, stream.file, PIPE_BYTES, flags=getattr(os, "SPLICE_F_NONBLOCK", 2))
                stream.written += moved
                stream.full_at = 0.0
                return moved
            except BlockingIOError:
                raise
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                    stream.splices = False
                else:
                    stream.full_at = time.monotonic()
                    return self._drop(stream, pipe, os.read(pipe.end, PIPE_BYTES))
        data = os.read(pipe.end, PIPE_BYTES)
        try:
            done = os.write(stream.file, data) if data else 0
        except OSError:
            stream.full_at, done = time.monotonic(), 0
        stream.written += done
        if done < len(data):
            self._drop(stream, pipe, data[done:])
        return len(data)

    @staticmethod
    def _turn(stream: Stream, pipe: Pipe) -> None:
        """From here on the other pipe writes. An unfinished line becomes a line of its own: nothing is torn."""
        assert stream.file is not None
        added = 0
        if stream.written:
            with contextlib.suppress(OSError):
                if os.pread(stream.file, 1, stream.began + stream.written - 1) != b"\n":
                    added = os.write(stream.file, b"\n")
        stream.written += added
        if len(stream.turns) > MOST_TURNS:
            stream.turns = stream.turns[MOST_TURNS // 2 :]
        stream.turns.append(Turn(stream.began + stream.written, pipe.is_err, bool(added)))

    @staticmethod
    def _drop(stream: Stream, pipe: Pipe, data: bytes) -> int:
        stream.dropped += len(data)
        stream.last_dropped += data[-LAST_BYTES:]
        del stream.last_dropped[:-LAST_BYTES]
        if data:
            stream.unrecorded.add(stream.began + stream.written, pipe.is_err, data)
        return len(data)

    def _end(self, stream: Stream, pipe: Pipe) -> None:
        pipe.open = False
        with contextlib.suppress(OSError, ValueError):
            self._poll.unregister(pipe.end)
        with self._lock:
            self._by_end.pop(pipe.end, None)
        for descriptor in (pipe.end, None if stream.open else stream.file):
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


def _goes_on_first(ready: tuple[Stream, Pipe]) -> bool:
    """The pipe that wrote last finishes its line before the other begins one."""
    stream, pipe = ready
    return stream.turns[-1].is_err is not pipe.is_err


def _holds(pipe: int) -> int:
    """Bytes that wait in a pipe."""
    held = array.array("i", [0])
    with contextlib.suppress(OSError):
        fcntl.ioctl(pipe, termios.FIONREAD, held)
    return held[0]


def _is_the_guards(stream: Stream, moved: int) -> bool:
    """Whether the last bytes of the file are a few lines of the guard, and nothing else."""
    if stream.file is None or moved > MOST_OF_A_GUARD or stream.full_at:
        return False
    with contextlib.suppress(OSError):
        lines = os.pread(stream.file, moved, stream.began + stream.written - moved).splitlines()
        return any(lines) and all(line.startswith(b"keepstep: ") or not line for line in lines)
    return False
