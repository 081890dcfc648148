# SPDX-License-Identifier: Apache-2.0
"""What ranks print, on its way to their files. Ranks never wait for a disk or a terminal.

Each rank writes into a pipe; one thread moves what arrives into the rank's file, in the kernel (splice), so that many ranks
printing much cost next to nothing. A disk that is full costs the recording, not the training: what cannot be written is
dropped, and its end is kept in memory. The terminal reads the files at its own pace (see terminal.py).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from keepstep.sources.arrivals import NAME, SCHEMA

PIPE_BYTES = 1 << 20
TAIL_BYTES = 64 << 10
TRY_AGAIN_S = 5.0
MARK_S, MOST_MARKS = 0.05, 1000
"""Of each rank's output it is known when the last so many pieces came, to so much."""
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", 1031)


@dataclass
class Stream:
    """The output of one rank."""

    name: str
    rank: int | None
    path: Path
    pipe: int
    file: int | None
    printed: int = 0
    """Bytes that the rank has printed so far."""
    written: int = 0
    dropped: int = 0
    """Bytes that could not be written."""
    full_at: float = 0.0
    splices: bool = True
    tail: bytearray = field(default_factory=bytearray)
    """The end of what was dropped."""
    open: bool = True
    marks: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MOST_MARKS))
    """How much was written when, lately."""
    first_mark: float = 0.0

    def mark(self, at: float) -> None:
        """Something has arrived; what comes within moments counts as one."""
        if self.marks and at - self.marks[-1][1] < MARK_S:
            at = self.marks.pop()[1]
        self.first_mark = self.first_mark or at
        self.marks.append((self.written, at))


class Output:
    """All streams of an attempt, and the thread that empties them."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self._poll = select.epoll()
        self._by_pipe: dict[int, Stream] = {}
        self._over = False
        self._lock = threading.Lock()
        self._wake_out, self._wake_in = os.pipe()
        self._poll.register(self._wake_out, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def open(self, name: str, rank: int | None, path: Path) -> int:
        """A descriptor for a rank to print into; the caller closes it when the rank has it."""
        end, out = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(end, F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(end, False)
        file: int | None = None
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.lseek(file, 0, os.SEEK_END)
        stream = Stream(name, rank, path, end, file, splices=hasattr(os, "splice"))
        with self._lock:
            self.streams.append(stream)
            self._by_pipe[end] = stream
            self._poll.register(end, select.EPOLLIN)
        return out

    @property
    def is_full(self) -> bool:
        return any(stream.dropped for stream in self.streams)

    def drain(self, limit_s: float) -> None:
        """Wait until every pipe has been closed by its writers and is empty, but not longer than this."""
        end = time.monotonic() + limit_s
        while any(stream.open for stream in self.streams) and time.monotonic() < end:
            time.sleep(0.005)

    def close(self) -> None:
        """Take what is left in the pipes, and end."""
        self._over = True
        os.write(self._wake_in, b"x")
        self._thread.join(timeout=5.0)
        for stream in self.streams:
            if stream.open:
                self._end(stream)
        self._keep_marks()
        with contextlib.suppress(OSError):
            self._poll.close()
            os.close(self._wake_in)
            os.close(self._wake_out)

    def _keep_marks(self) -> None:
        """For `keepstep why`: programs seldom print the time."""
        for folder in {stream.path.parent for stream in self.streams}:
            here = [stream for stream in self.streams if stream.path.parent == folder and stream.marks]
            logs = {each.path.name: {"whole": each.marks[0][1] == each.first_mark, "marks": list(each.marks)} for each in here}
            with contextlib.suppress(OSError):
                (folder / NAME).write_text(json.dumps({"schema": SCHEMA, "logs": logs}))

    def _run(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                stream = self._by_pipe.get(descriptor)
                if stream is not None and not self._take(stream):
                    self._end(stream)
            if self._over:
                for stream in self.streams:
                    while stream.open and self._take(stream, once=True):
                        pass
                return

    def _take(self, stream: Stream, *, once: bool = False) -> bool:
        """Move what is there. False at the end of the stream (or, with ``once``, when it is empty)."""
        try:
            moved = self._move(stream)
        except BlockingIOError:
            return not once
        except OSError:
            return False
        stream.printed += moved
        if moved:
            stream.mark(time.time())
        return moved > 0

    def _move(self, stream: Stream) -> int:
        if stream.file is None or (stream.full_at and time.monotonic() - stream.full_at < TRY_AGAIN_S):
            return self._drop(stream, os.read(stream.pipe, PIPE_BYTES))
        if stream.splices:
            try:
                moved = os.splice(stream.pipe, stream.file, PIPE_BYTES, flags=getattr(os, "SPLICE_F_NONBLOCK", 2))
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
                    return self._drop(stream, os.read(stream.pipe, PIPE_BYTES))
        data = os.read(stream.pipe, PIPE_BYTES)
        try:
            done = os.write(stream.file, data) if data else 0
        except OSError:
            stream.full_at, done = time.monotonic(), 0
        stream.written += done
        if done < len(data):
            self._drop(stream, data[done:])
        return len(data)

    @staticmethod
    def _drop(stream: Stream, data: bytes) -> int:
        stream.dropped += len(data)
        stream.tail += data[-TAIL_BYTES:]
        del stream.tail[:-TAIL_BYTES]
        return len(data)

    def _end(self, stream: Stream) -> None:
        stream.open = False
        with contextlib.suppress(OSError, ValueError):
            self._poll.unregister(stream.pipe)
        with self._lock:
            self._by_pipe.pop(stream.pipe, None)
        for descriptor in (stream.pipe, stream.file):
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
