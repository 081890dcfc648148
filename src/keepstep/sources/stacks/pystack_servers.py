# SPDX-License-Identifier: Apache-2.0
"""Child processes with pystack loaded that wait for questions. One that hangs or dies is replaced and answers None."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import time

PIECE = 1 << 20
MOST_ANSWER = 64 << 20


class PystackServers:
    """Safe to use from any thread; each child answers one question at a time."""

    def __init__(self, command: list[str], count: int) -> None:
        self._command = command
        self._free: queue.LifoQueue[subprocess.Popen[bytes] | None] = queue.LifoQueue()
        for _ in range(count):
            self._free.put(self._start())

    def ask(self, words: list[str], limit_s: float) -> bytes | None:
        """The answer to one look; None if it did not come, or came too late."""
        end = time.monotonic() + limit_s
        try:
            child = self._free.get(timeout=limit_s)
        except queue.Empty:
            return None
        answer = None
        try:
            fresh = child is None
            child = child or self._start()
            if child is not None:
                answer = _asked(child, words, end)
            if answer is None and child is not None and not fresh and time.monotonic() < end:
                _end(
                    child
                )  # it ended itself after its last look; another child answers, unless this look took too long
                child = self._start() if child.returncode != -signal.SIGALRM else None
                answer = _asked(child, words, end) if child is not None else None
        finally:
            if answer is None and child is not None:
                _end(child)
                child = None
            self._free.put(child)
        return answer

    def close(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                child = self._free.get_nowait()
                if child is not None:
                    _end(child)

    def _start(self) -> subprocess.Popen[bytes] | None:
        try:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return None


def _asked(child: subprocess.Popen[bytes], words: list[str], end: float) -> bytes | None:
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(json.dumps(words).encode() + b"\n")
        child.stdin.flush()
    except OSError:
        return None
    answer = bytearray()
    out = child.stdout.fileno()
    while (left := end - time.monotonic()) > 0 and len(answer) < MOST_ANSWER:
        if not select.select([out], [], [], left)[0]:
            return None
        piece = os.read(out, PIECE)
        if not piece:
            return None
        answer += piece
        if answer.endswith(b"\n"):
            return bytes(answer)
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        child.kill()
    for stream in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5.0)
