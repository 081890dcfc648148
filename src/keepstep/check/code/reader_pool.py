# SPDX-License-Identifier: Apache-2.0
"""Reads many files in processes of their own: one that a file brings down, or that takes too long, is replaced."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence

from keepstep.base.worker_pool import Messages, Send, Worker, WorkerPool
from keepstep.check.code.files import ProgramFile
from keepstep.check.code.read_program import NotRead, bytes_of, read
from keepstep.check.code.unit_bytes import packed

LIMIT_S = 20.0
"""For one file. The largest that is read takes a tenth of it."""
AT_ONCE = 16
"""Files that a worker is given together."""


def read_all(
    files: Sequence[ProgramFile],
    tell: Callable[[int], None] = lambda done: None,
    reader: Callable[[ProgramFile], bytes] | None = None,
) -> dict[str, bytes | str]:
    """By file as shown: what it says, packed, or why it is not read. ``reader``: of other files than programs."""
    results: dict[str, bytes | str] = {}
    for file, result in _Readers(files, reader or _program).results(_batches(len(files))):
        results[file.shown] = result
        tell(len(results))
    return results


def _batches(count: int) -> Iterator[list[int]]:
    """Smaller ones towards the end: then all workers are done at about the same time."""
    begin = 0
    while begin < count:
        end = begin + max(1, min(AT_ONCE, (count - begin) // 4))
        yield list(range(begin, end))
        begin = end


class _Readers(WorkerPool[int, tuple[ProgramFile, bytes | str]]):
    """Tasks are the numbers of files. Workers are forked: they have the list, and all that reading needs."""

    def __init__(self, files: Sequence[ProgramFile], reader: Callable[[ProgramFile], bytes]) -> None:
        super().__init__(min(os.cpu_count() or 1, 8, 1 + len(files) // 8))
        self._files, self._reader = files, reader

    def start(self) -> Worker:
        return Worker.fork(self._serve)

    def request(self, tasks: list[int]) -> bytes:
        return json.dumps(tasks).encode()

    def answered(self, task: int, message: bytes) -> tuple[ProgramFile, bytes | str]:
        return self._files[task], message[1:] if message[0] else message[1:].decode()

    def lost(self, task: int, worker: Worker, status: int | None) -> tuple[ProgramFile, bytes | str]:
        late = f"it took longer than {LIMIT_S:.0f} s"
        return self._files[task], late if self.is_overdue(worker) else "reading it brought the reader down"

    def is_overdue(self, worker: Worker) -> bool:
        return time.monotonic() - worker.since > LIMIT_S

    def _serve(self, tasks: Messages, send: Send) -> None:
        _limit()
        gc.disable()  # syntax trees are freed without it
        for task in tasks:
            for number in json.loads(task):
                result = _read(self._files[number], self._reader)
                send(b"\0" + result.encode("utf-8", "replace") if isinstance(result, str) else b"\1" + result)


def _limit() -> None:
    """Bound what a hostile file can take."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass


def _program(file: ProgramFile) -> bytes:
    return packed(read(bytes_of(file.path), file.path, file.module, file.is_package))


def _read(file: ProgramFile, reader: Callable[[ProgramFile], bytes]) -> bytes | str:
    try:
        return reader(file)
    except NotRead as error:
        return str(error)
    except Exception as error:
        return f"keepstep itself failed on it: {type(error).__name__}: {error}"
