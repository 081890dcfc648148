# SPDX-License-Identifier: Apache-2.0
"""Standard output and error that never raise: what nobody can take is dropped, and the verb goes on to its own status.

A reader that has enough (`| head`) is no error. A full disk is one: :meth:`Stream.error` has it for the end.
"""

from __future__ import annotations

import contextlib
import io
import select
import sys
from typing import TextIO


class Stream(io.RawIOBase):
    """One open file of this process, by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._file = io.FileIO(descriptor, "wb", closefd=False)
        self._given_up = False
        self.error: OSError | None = None
        """The first one, other than a reader that left."""

    def write(self, data: object) -> int:
        """All of it, or none from the first error on."""
        left = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(left)
        while left and not self._given_up:
            try:
                done = self._file.write(left)
                if done is None:  # another program made the terminal non-blocking
                    select.select([], [self._file], [])
                left = left[done or 0 :]
            except BrokenPipeError:
                self._given_up = True
            except OSError as error:
                self._given_up, self.error = True, error
        return size

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


def harmless(stream: TextIO | None) -> tuple[TextIO | None, Stream | None]:
    """The same file as a stream that never raises, even for letters that its encoding lacks; and its lower half."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream, None
    stream.reconfigure(errors="backslashreplace")
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
        raw = Stream(stream.fileno())
        by_line = stream.line_buffering or stream.write_through
        return io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=by_line
        ), raw
    return stream, None


def flush() -> None:
    """What is still buffered goes out now."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
