# SPDX-License-Identifier: Apache-2.0
"""Reads many files in processes of their own: one that a file brings down, or that takes too long, is replaced."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence

from keepstep.base.worker_pool import Messages, Send, Worker, WorkerPool
from keepstep.check.code.files import SETTINGS, ProgramFile
from keepstep.check.code.read_program import NotRead, content_of, read
from keepstep.check.code.settings_files import read_settings
from keepstep.check.code.summary import Summary, digest_of, summary_of, summary_of_settings
from keepstep.check.code.unit_bytes import BROKEN, OnlyPlain, packed

LIMIT_S = 20.0
"""For one file. The largest that is read takes a tenth of it."""
AT_ONCE = 16
"""Files that a worker is given together."""


ReadFile = tuple[Summary, bytes]
"""What is needed of a file for good, and all that it says, packed."""
_LENGTH = 4


def read_all(
    files: Sequence[ProgramFile], tell: Callable[[int], None] = lambda done: None
) -> dict[str, ReadFile | str]:
    """By file as shown: what it says, or why it is not read."""
    results: dict[str, ReadFile | str] = {}
    for file, result in _Readers(files).results(_batches(len(files))):
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


class _Readers(WorkerPool[int, tuple[ProgramFile, ReadFile | str]]):
    """Tasks are the numbers of files. Workers are forked: they have the list, and all that reading needs."""

    def __init__(self, files: Sequence[ProgramFile]) -> None:
        super().__init__(min(os.cpu_count() or 1, 8, 1 + len(files) // 8))
        self._files = files

    def start(self) -> Worker:
        return Worker.fork(self._serve)

    def request(self, tasks: list[int]) -> bytes:
        return json.dumps(tasks).encode()

    def answered(self, task: int, message: bytes) -> tuple[ProgramFile, ReadFile | str]:
        return self._files[task], _taken_apart(message[1:]) if message[0] else message[1:].decode()

    def lost(self, task: int, worker: Worker, status: int | None) -> tuple[ProgramFile, ReadFile | str]:
        late = f"it took longer than {LIMIT_S:.0f} s"
        return self._files[task], late if self.is_overdue(worker) else "reading it brought the reader down"

    def is_overdue(self, worker: Worker) -> bool:
        return time.monotonic() - worker.since > LIMIT_S

    def _serve(self, tasks: Messages, send: Send) -> None:
        _limit()
        gc.disable()  # syntax trees are freed without it
        for task in tasks:
            for number in json.loads(task):
                result = _read(self._files[number])
                send(b"\0" + result.encode("utf-8", "replace") if isinstance(result, str) else b"\1" + result)


def _taken_apart(message: bytes) -> ReadFile | str:
    begin = _LENGTH + int.from_bytes(message[:_LENGTH], "little")
    try:
        return Summary(*OnlyPlain(io.BytesIO(message[_LENGTH:begin])).load()), message[begin:]
    except BROKEN as error:
        return f"what was read of it cannot be used: {error}"


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
        data = content_of(file)
        digest = digest_of(file, data)
        if file.module == SETTINGS:
            source, said = read_settings(data, file.path.name)
            summary = summary_of_settings(source, digest)
        else:
            unit = read(data, file.path, file.module, file.is_package)
            summary, said = summary_of(unit, file, digest), packed(unit)
        first = pickle.dumps(tuple(summary), protocol=5)
        return len(first).to_bytes(_LENGTH, "little") + first + said
    except NotRead as error:
        return str(error)
    except Exception as error:
        return f"keepstep itself failed on it: {type(error).__name__}: {error}"
