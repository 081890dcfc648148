# SPDX-License-Identifier: Apache-2.0
"""Reads many files in processes of their own: one that a file brings down, or that takes too long, is replaced."""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from keepstep.check.code.files import ProgramFile
from keepstep.check.code.read_program import NotRead, bytes_of, read
from keepstep.check.code.unit_bytes import packed

LIMIT_S = 20.0
"""For one file. The largest that is read takes a tenth of it."""
AT_ONCE = 16
"""Files that a worker is given together."""


def read_all(files: Sequence[ProgramFile], tell: Callable[[int], None] = lambda done: None) -> dict[str, bytes | str]:
    """By file as shown: what it says, packed, or why it is not read."""
    crew = _Crew(files)
    try:
        return crew.work(tell)
    finally:
        crew.end()


class _Crew:
    def __init__(self, files: Sequence[ProgramFile]) -> None:
        self.files = files
        self.waiting = deque(range(len(files)))
        self.results: dict[str, bytes | str] = {}
        self.workers: dict[Connection, _Worker] = {}

    def work(self, tell: Callable[[int], None]) -> dict[str, bytes | str]:
        several = min(os.cpu_count() or 1, 8, 1 + len(self.files) // 8)
        while self.waiting or self.workers:
            while self.waiting and len(self.workers) < several:
                self._start()
            for connection in wait(list(self.workers), timeout=1.0):
                assert isinstance(connection, Connection)
                self._hear(connection)
            for worker in list(self.workers.values()):
                if worker.late:
                    self._give_up(worker, f"it took longer than {LIMIT_S:.0f} s")
            tell(len(self.results))
        return self.results

    def _start(self) -> None:
        worker = _Worker(self.files)
        self.workers[worker.connection] = worker
        worker.give(self._next())

    def _next(self) -> list[int]:
        share = max(1, min(AT_ONCE, len(self.waiting) // 4))
        return [self.waiting.popleft() for _ in range(min(share, len(self.waiting)))]

    def _hear(self, connection: Connection) -> None:
        worker = self.workers[connection]
        try:
            answer = connection.recv_bytes()
        except (EOFError, OSError):
            self._give_up(worker, "reading it brought the reader down")
            return
        number, is_read, result = int.from_bytes(answer[:4], "little"), answer[4], answer[5:]
        self.results[self.files[number].shown] = result if is_read else result.decode()
        worker.done(number)
        if not worker.given:
            if self.waiting:
                worker.give(self._next())
            else:
                del self.workers[connection]
                worker.end()

    def _give_up(self, worker: _Worker, why: str) -> None:
        """The file that it was at is not read; the others are given to another one."""
        del self.workers[worker.connection]
        worker.end()
        culprit, *rest = worker.given
        self.results[self.files[culprit].shown] = why
        self.waiting.extendleft(reversed(rest))

    def end(self) -> None:
        for worker in self.workers.values():
            worker.end()


class _Worker:
    """One process. It reads its files in the given order, so the first that is missing is the one that it is at."""

    def __init__(self, files: Sequence[ProgramFile]) -> None:
        context: Any = get_context("fork" if os.name == "posix" else "spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_serve, args=(theirs, files), daemon=True)
        self.process.start()
        theirs.close()
        self.given: list[int] = []
        self.since = time.monotonic()

    def give(self, numbers: list[int]) -> None:
        self.given, self.since = numbers, time.monotonic()
        self.connection.send(numbers)

    def done(self, number: int) -> None:
        self.given.remove(number)
        self.since = time.monotonic()

    @property
    def late(self) -> bool:
        return time.monotonic() - self.since > LIMIT_S

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _serve(connection: Connection, files: Sequence[ProgramFile]) -> None:
    _limit()
    gc.disable()  # syntax trees are freed without it
    try:
        while True:
            for number in connection.recv():
                result = _read(files[number])
                answer = b"\0" + result.encode("utf-8", "replace") if isinstance(result, str) else b"\1" + result
                connection.send_bytes(number.to_bytes(4, "little") + answer)
    except (EOFError, OSError, KeyboardInterrupt):
        os._exit(0)


def _limit() -> None:
    """Bound what a hostile file can take."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass


def _read(file: ProgramFile) -> bytes | str:
    try:
        return packed(read(bytes_of(file.path), file.path, file.module, file.is_package))
    except NotRead as error:
        return str(error)
    except Exception as error:
        return f"keepstep itself failed on it: {type(error).__name__}: {error}"
