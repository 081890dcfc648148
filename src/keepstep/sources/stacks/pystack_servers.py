# SPDX-License-Identifier: Apache-2.0
"""Child processes with pystack loaded that wait for questions. One that hangs or dies is replaced and answers None."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import time

from keepstep.base.worker_pool import Worker

MOST_ANSWER = 64 << 20


class PystackServers:
    """Safe to use from any thread; each child answers one question at a time."""

    def __init__(self, command: list[str], count: int) -> None:
        self._command = command
        self._free: queue.LifoQueue[Worker | None] = queue.LifoQueue()
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
                # it ended itself after its last look; another child answers, unless this look took too long
                child = self._start() if child.end() != -signal.SIGALRM else None
                answer = _asked(child, words, end) if child is not None else None
        finally:
            if answer is None and child is not None:
                child.end()
                child = None
            self._free.put(child)
        return answer

    def close(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                child = self._free.get_nowait()
                if child is not None:
                    child.end()

    def _start(self) -> Worker | None:
        with contextlib.suppress(OSError):
            return Worker.run(self._command, start_new_session=True)
        return None


def _asked(child: Worker, words: list[str], end: float) -> bytes | None:
    child.give(json.dumps(words).encode())
    return child.answer(end - time.monotonic(), MOST_ANSWER)
